//! What memory is: its element types, and the trait of all that can be annotated.

use std::cell::Cell;
use std::marker::PhantomData;
use std::os::raw::c_int;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A type of elements that ddprun knows. Implemented by this crate only.
pub trait Element: sealed::Sealed + Copy + 'static {
    /// The number of the type in `enum ddp_type`.
    #[doc(hidden)]
    const TYPE: c_int;
}

/// Floating-point elements: those of parameters, gradients and buffers. `f32`, `f64`, [`F16`], [`Bf16`].
pub trait Real: Element {}

/// Elements of an optimizer's state: those of [`Real`], and `i32`, `i64`, `u8`.
pub trait StateElement: Element {}

/// Elements that [`Ddp::reduce`](crate::Ddp::reduce) adds and compares: those of [`Real`], and `i32`, `i64`, `u32`, `u64`.
pub trait Number: Element {}

/// Numbers that [`Ddp::mean`](crate::Ddp::mean) takes: `f32` and `f64`.
pub trait Scalar: Real {}

/// A 16-bit float of IEEE 754 (`__half`), by its bits. It names the type of elements; the crate does not compute with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(
    /// The bits.
    pub u16,
);

/// A bfloat16 (`__nv_bfloat16`), by its bits. It names the type of elements; the crate does not compute with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(
    /// The bits.
    pub u16,
);

macro_rules! elements {
    ($($element:ty = $number:literal: $($kind:ident)*;)*) => {$(
        impl sealed::Sealed for $element {}
        impl Element for $element {
            const TYPE: c_int = $number;
        }
        $(impl $kind for $element {})*
    )*};
}
elements! {
    f32 = 1: Real StateElement Number Scalar;
    f64 = 2: Real StateElement Number Scalar;
    F16 = 3: Real StateElement Number;
    Bf16 = 4: Real StateElement Number;
    i32 = 5: StateElement Number;
    i64 = 6: StateElement Number;
    u8 = 7: StateElement;
    u32 = 8: Number;
    u64 = 9: Number;
}

/// Elements in memory of a CUDA device, in managed memory, or in memory of the host: what an annotation names.
///
/// A program implements it once for its own type of buffer, or wraps a buffer of another crate in [`Raw`]. `Box<M>`,
/// `Rc<M>` and `Arc<M>` are memory if `M` is; so are `Box<[Cell<f32>]>` and `Rc<[Cell<f32>]>`, which are host memory.
///
/// A plain `&M` is no memory: `std::mem::forget` of its annotation would leave the annotation without the memory. Give the
/// annotation the buffer itself, or an `Rc` or `Arc` of it.
///
/// ```
/// # use ddprun::Memory;
/// /// Device memory of one tensor; freed on drop.
/// struct DeviceBuffer {
///     address: u64, // a CUdeviceptr, from cuMemAlloc
///     count: usize,
/// }
/// // SAFETY: both fields stay as cuMemAlloc has set them, and the memory is freed in `drop` only.
/// unsafe impl Memory for DeviceBuffer {
///     type Element = f32;
///     fn address(&self) -> u64 {
///         self.address
///     }
///     fn count(&self) -> usize {
///         self.count
///     }
/// }
/// ```
///
/// # Safety
/// ddprun reads and writes this memory from the annotation to its end, without a further call of the program's: so the
/// trait is `unsafe` to implement, and annotations are safe to make. The implementer promises:
///
/// - [`address`](Memory::address) and [`count`](Memory::count) give the same values in each call, also after the value is
///   moved.
/// - `count` elements of type [`Element`](Memory::Element), without holes, lie from the address on. They are allocated and
///   writable until the value is dropped. A value that is leaked leaks its memory.
/// - Safe code holds no `&T` or `&mut T` to elements that the host can reach, while ddprun may write them: in `step`,
///   `step_parameters`, `reduce`, and in the calls that annotate. `Cell<T>` and raw pointers are allowed. Memory that only
///   the device reaches has no such references.
pub unsafe trait Memory {
    /// The type of the elements.
    type Element: Element;
    /// The address of the first element: a `CUdeviceptr`, or an address of the host. A multiple of the element's size.
    fn address(&self) -> u64;
    /// The number of elements, not of bytes. With 0 an annotation does nothing.
    fn count(&self) -> usize;
}

/// Host memory. Its elements are `Cell`s because ddprun writes them during calls that take no `&mut`, and because `Cell`
/// keeps it in one thread.
unsafe impl<T: Element> Memory for [Cell<T>] {
    type Element = T;
    fn address(&self) -> u64 {
        self.as_ptr() as u64
    }
    fn count(&self) -> usize {
        self.len()
    }
}

macro_rules! pointers {
    ($($pointer:ident)*) => {$(
        // SAFETY: the pointer owns a value that does not move with it, and what holds for that value holds here.
        unsafe impl<M: Memory + ?Sized> Memory for $pointer<M> {
            type Element = M::Element;
            fn address(&self) -> u64 {
                (**self).address()
            }
            fn count(&self) -> usize {
                (**self).count()
            }
        }
    )*};
}
pointers!(Box Rc Arc);

/// Memory by its address, with the value that owns it: for buffers of other crates, and for parts of a buffer.
///
/// `O` is the owner: a buffer, an `Arc` of it, or a reference to it. With a reference the compiler refuses a program that
/// drops the buffer before the annotation. `()` is memory without an owner.
///
/// ```no_run
/// # struct CudaSlice; impl CudaSlice { fn device_address(&self) -> u64 { 0 } fn len(&self) -> usize { 0 } }
/// # let slice = CudaSlice;
/// # let ddp = ddprun::Ddp::take();
/// let (address, count) = (slice.device_address(), slice.len());
/// // SAFETY: the slice keeps its memory as long as it lives, and Raw owns the slice.
/// let gradient = ddp.gradient("w1", unsafe { ddprun::Raw::<f32, _>::new(slice, address, count) });
/// ```
#[derive(Debug)]
pub struct Raw<T: Element, O = ()> {
    owner: O,
    address: u64,
    count: usize,
    elements: PhantomData<*mut T>,
}

impl<T: Element, O> Raw<T, O> {
    /// `count` elements at `address`, which `owner` keeps allocated.
    ///
    /// # Safety
    /// The memory is as [`Memory`] promises: `count` elements of type `T`, allocated and writable until this value is
    /// dropped, and for ever if this value or its annotation is leaked (`std::mem::forget`). Of host memory no reference
    /// to an element may live while ddprun writes there.
    pub unsafe fn new(owner: O, address: u64, count: usize) -> Self {
        Raw { owner, address, count, elements: PhantomData }
    }

    /// The value that owns the memory.
    pub fn owner(&self) -> &O {
        &self.owner
    }

    /// Gives the owner back.
    pub fn into_owner(self) -> O {
        self.owner
    }
}

// SAFETY: what `Raw::new` was promised.
unsafe impl<T: Element, O> Memory for Raw<T, O> {
    type Element = T;
    fn address(&self) -> u64 {
        self.address
    }
    fn count(&self) -> usize {
        self.count
    }
}
