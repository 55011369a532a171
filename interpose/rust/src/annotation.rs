//! Annotated memory: what an annotation returns, and what ends it.

use crate::interface::{get, lock, site, Interface, Site};
use crate::memory::Memory;
use crate::owner::Holder;
use crate::stream::Stream;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::raw::c_void;
use std::ptr;
use std::sync::Mutex;

/// What annotated memory can be. Each is a type of its own, so that a parameter is not taken for a gradient.
pub mod kind {
    /// Weights.
    #[derive(Debug)]
    pub struct Parameter;
    /// State of the optimizer.
    #[derive(Debug)]
    pub struct State;
    /// Gradients.
    #[derive(Debug)]
    pub struct Gradient;
    /// State that is no parameter, for example running statistics.
    #[derive(Debug)]
    pub struct Buffer;
}

/// Memory that holds weights, until it is dropped: [`Ddp::parameter`](crate::Ddp::parameter).
pub type Parameter<M> = Annotated<M, kind::Parameter>;
/// Memory that holds state of the optimizer, until it is dropped: [`Ddp::state`](crate::Ddp::state).
pub type State<M> = Annotated<M, kind::State>;
/// Memory that receives a gradient in each backward pass, until it is dropped: [`Ddp::gradient`](crate::Ddp::gradient).
pub type Gradient<M> = Annotated<M, kind::Gradient>;
/// Memory that takes rank 0's bytes at each step, until it is dropped: [`Ddp::buffer`](crate::Ddp::buffer).
pub type Buffer<M> = Annotated<M, kind::Buffer>;

/// Memory and its annotation, which ends before the memory is freed.
///
/// It owns the memory, and dereferences to it. Dropping it drops both; [`forget`](Annotated::forget) ends the annotation
/// and gives the memory back. It stays in the thread of its [`Ddp`](crate::Ddp): it is neither `Send` nor `Sync`, so that a
/// `static` of it does not compile.
///
/// All ranks drop or forget the same annotations between the same steps.
#[must_use = "the annotation ends when this value is dropped: keep it as long as the training"]
pub struct Annotated<M: Memory, K> {
    memory: M,
    address: u64,
    site: &'static Site,
    _holder: Holder,
    kind: PhantomData<(K, *const ())>,
}

/// How many annotations name an address: it is forgotten with the last one.
static ANNOTATED: Mutex<Option<HashMap<u64, usize>>> = Mutex::new(None);

impl<M: Memory, K> Annotated<M, K> {
    #[track_caller]
    pub(crate) fn new(memory: M, site: &'static Site, annotate: impl FnOnce(&Interface, *mut c_void, &M)) -> Self {
        let holder = Holder::new();
        let holder = holder.expect("memory is annotated in the thread of its Ddp");
        let address = memory.address();
        if let Some(interface) = get() {
            annotate(interface, address as usize as *mut c_void, &memory);
            if memory.count() > 0 {
                *lock(&ANNOTATED).get_or_insert_with(HashMap::new).entry(address).or_insert(0) += 1;
            }
        }
        Annotated { memory, address, site, _holder: holder, kind: PhantomData }
    }

    /// Ends the annotation, and gives the memory back: before it gets another use.
    pub fn forget(self) -> M {
        self.end();
        let whole = ManuallyDrop::new(self);
        // SAFETY: `whole` is not dropped, so each of its fields with a destructor is read and dropped once.
        unsafe {
            drop(ptr::read(&whole._holder));
            ptr::read(&whole.memory)
        }
    }

    /// The memory, to be changed: for buffers whose kernels and copies take `&mut`.
    ///
    /// # Safety
    /// The value that stays in the annotation has the same memory as before: it is not replaced, swapped or resized.
    /// (`Pin::get_unchecked_mut` is unsafe for the same reason.)
    pub unsafe fn get_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    fn end(&self) {
        let interface = match get() {
            Some(interface) if self.memory.count() > 0 => interface,
            _ => return,
        };
        let mut annotated = lock(&ANNOTATED);
        let annotated = annotated.get_or_insert_with(HashMap::new);
        if let Some(number) = annotated.get_mut(&self.address) {
            *number -= 1;
            if *number > 0 {
                return;
            }
        }
        annotated.remove(&self.address);
        // SAFETY: the address is only compared.
        unsafe { (interface.forget)(self.address as usize as *mut c_void, self.site) }
    }
}

impl<M: Memory> Annotated<M, kind::Gradient> {
    /// This gradient is complete for this step after the work that `stream` holds now. `DDP_GRADIENT_READY`: for gradients
    /// whose work ddprun cannot see. A gradient that is written later in the same step is averaged again in `step`.
    #[track_caller]
    pub fn ready(&self, stream: Stream) {
        ready(self.address, stream, site("ready"));
    }
}

impl<M: Memory> Annotated<M, kind::Parameter> {
    /// As [`Gradient::ready`](Annotated::ready), in a program of [`Ddp::step_parameters`](crate::Ddp::step_parameters).
    #[track_caller]
    pub fn updated(&self, stream: Stream) {
        ready(self.address, stream, site("updated"));
    }
}

fn ready(address: u64, stream: Stream, site: &'static Site) {
    if let Some(interface) = get() {
        // SAFETY: the memory is annotated; of the stream `Stream::from_raw` was promised.
        unsafe { (interface.gradient_ready)(address as usize as *mut c_void, stream.handle(), site) }
    }
}

impl<M: Memory, K> Deref for Annotated<M, K> {
    type Target = M;
    fn deref(&self) -> &M {
        &self.memory
    }
}

impl<M: Memory, K> Drop for Annotated<M, K> {
    fn drop(&mut self) {
        self.end(); // the memory is dropped after this
    }
}

impl<M: Memory, K> fmt::Debug for Annotated<M, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements at {:#x}, annotated", self.memory.count(), self.address)
    }
}
