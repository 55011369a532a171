//! The few calls of the CUDA driver that the trainer makes, by a library that is opened at run time: nothing is linked.
#![warn(unsafe_op_in_unsafe_fn)]

#[path = "nvrtc.rs"]
mod nvrtc;

use ddprun::{Annotated, Element, Memory};
use std::ffi::CString;
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}
const RTLD_NOW: c_int = 2;
const NON_BLOCKING: c_uint = 1;

/// The library, or null.
fn try_open(path: &str) -> *mut c_void {
    let name = CString::new(path).expect("a path without a zero byte");
    // SAFETY: the name is a string of C.
    unsafe { dlopen(name.as_ptr(), RTLD_NOW) }
}

fn open(path: &str) -> *mut c_void {
    let library = try_open(path);
    assert!(!library.is_null(), "cannot open {path}");
    library
}

fn look_up(library: *mut c_void, name: &str) -> *mut c_void {
    let symbol = CString::new(name).expect("a name without a zero byte");
    // SAFETY: the library is open, the name a string of C.
    let found = unsafe { dlsym(library, symbol.as_ptr()) };
    assert!(!found.is_null(), "there is no {name} in the library");
    found
}

fn check(call: &str, result: c_int) {
    assert_eq!(result, 0, "{call} failed");
}

macro_rules! driver {
    ($($field:ident = $name:literal ($($argument:ty),*);)*) => {
        /// Functions of libcuda, each with its exported name.
        struct Driver {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }
        impl Driver {
            fn open() -> Driver {
                let library = open("libcuda.so.1");
                // SAFETY: the functions have these types in cuda.h.
                unsafe { Driver { $($field: std::mem::transmute(look_up(library, $name)),)* } }
            }
        }
    };
}
driver! {
    init = "cuInit" (c_uint);
    device_get = "cuDeviceGet" (*mut c_int, c_int);
    context_retain = "cuDevicePrimaryCtxRetain" (*mut *mut c_void, c_int);
    context_set = "cuCtxSetCurrent" (*mut c_void);
    stream_create = "cuStreamCreate" (*mut *mut c_void, c_uint);
    stream_synchronize = "cuStreamSynchronize" (*mut c_void);
    memory_allocate = "cuMemAlloc_v2" (*mut u64, usize);
    memory_free = "cuMemFree_v2" (u64);
    memory_set = "cuMemsetD8Async" (u64, u8, usize, *mut c_void);
    copy_to_device = "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, *mut c_void);
    copy_to_host = "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, *mut c_void);
    module_load = "cuModuleLoadData" (*mut *mut c_void, *const c_void);
    module_function = "cuModuleGetFunction" (*mut *mut c_void, *mut c_void, *const c_char);
    launch = "cuLaunchKernel" (*mut c_void, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, *mut c_void,
                               *mut *mut c_void, *mut *mut c_void);
}

/// A device by its primary context, and one stream.
pub struct Device {
    driver: Driver,
    stream: *mut c_void,
}

impl Device {
    /// The first device: of a rank, it is the rank's own. Lives as long as the process.
    pub fn open() -> &'static Device {
        let driver = Driver::open();
        let (mut number, mut context, mut stream) = (0, null_mut(), null_mut());
        // SAFETY: all outputs are variables of this function.
        unsafe {
            check("cuInit", (driver.init)(0));
            check("cuDeviceGet", (driver.device_get)(&mut number, 0));
            check("cuDevicePrimaryCtxRetain", (driver.context_retain)(&mut context, number));
            check("cuCtxSetCurrent", (driver.context_set)(context));
            check("cuStreamCreate", (driver.stream_create)(&mut stream, NON_BLOCKING));
        }
        Box::leak(Box::new(Device { driver, stream }))
    }

    /// The stream of all work.
    pub fn stream(&self) -> ddprun::Stream {
        // SAFETY: it is never destroyed.
        unsafe { ddprun::Stream::from_raw(self.stream) }
    }

    fn load(&self, image: *const c_void) -> *mut c_void {
        let mut module = null_mut();
        // SAFETY: the driver has read the image when the call returns, and the output is a variable of this function.
        check("cuModuleLoadData", unsafe { (self.driver.module_load)(&mut module, image) });
        module
    }

    fn wait(&self) {
        // SAFETY: it is never destroyed.
        check("cuStreamSynchronize", unsafe { (self.driver.stream_synchronize)(self.stream) });
    }
}

/// Elements in device memory, freed on drop.
pub struct DeviceBuffer<T: Element> {
    device: &'static Device,
    address: u64,
    count: usize,
    elements: std::marker::PhantomData<T>,
}

// SAFETY: the fields stay as cuMemAlloc has set them, and the memory is freed in `drop` only.
unsafe impl<T: Element> Memory for DeviceBuffer<T> {
    type Element = T;
    fn address(&self) -> u64 {
        self.address
    }
    fn count(&self) -> usize {
        self.count
    }
}

impl<T: Element> DeviceBuffer<T> {
    /// Zero bytes.
    pub fn zeros(device: &'static Device, count: usize) -> Self {
        let mut address = 0;
        let bytes = count * std::mem::size_of::<T>();
        // SAFETY: the output is a variable of this function.
        check("cuMemAlloc", unsafe { (device.driver.memory_allocate)(&mut address, bytes) });
        // SAFETY: the memory is as large.
        check("cuMemsetD8Async", unsafe { (device.driver.memory_set)(address, 0, bytes, device.stream) });
        DeviceBuffer { device, address, count, elements: std::marker::PhantomData }
    }

    /// Copies the first elements to the device.
    pub fn write(&self, from: &[T]) {
        assert!(from.len() <= self.count);
        let (bytes, at) = (std::mem::size_of_val(from), from.as_ptr().cast());
        // SAFETY: both sides are as large, and the call has read pageable memory when it returns.
        let result = unsafe { (self.device.driver.copy_to_device)(self.address, at, bytes, self.device.stream) };
        check("cuMemcpyHtoDAsync", result);
    }

    /// Copies the first elements to the host, and waits for them.
    pub fn read(&self, to: &mut [T]) {
        assert!(to.len() <= self.count);
        let (bytes, at) = (std::mem::size_of_val(to), to.as_mut_ptr().cast());
        // SAFETY: both sides are as large, and `to` is borrowed until the copy is done.
        let result = unsafe { (self.device.driver.copy_to_host)(at, self.address, bytes, self.device.stream) };
        check("cuMemcpyDtoHAsync", result);
        self.device.wait();
    }
}

impl<T: Element> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        self.device.wait();
        // SAFETY: no work uses it any more.
        check("cuMemFree", unsafe { (self.device.driver.memory_free)(self.address) });
    }
}

/// A kernel's argument, as cuLaunchKernel takes it.
pub enum Argument {
    Address(u64),
    Int(c_int),
    Float(f32),
}

impl<T: Element> From<&DeviceBuffer<T>> for Argument {
    fn from(buffer: &DeviceBuffer<T>) -> Argument {
        Argument::Address(buffer.address)
    }
}

impl<T: Element, K> From<&Annotated<DeviceBuffer<T>, K>> for Argument {
    fn from(annotated: &Annotated<DeviceBuffer<T>, K>) -> Argument {
        Argument::from(&**annotated)
    }
}

impl From<usize> for Argument {
    fn from(number: usize) -> Argument {
        Argument::Int(number as c_int)
    }
}

impl From<f32> for Argument {
    fn from(number: f32) -> Argument {
        Argument::Float(number)
    }
}

/// The kernels of a file.
pub struct Module {
    device: &'static Device,
    module: *mut c_void,
}

impl Module {
    /// A source (*.cu), which NVRTC compiles now; or a file that nvcc, or softgpu-cc, has made (-fatbin, -cubin, -ptx).
    pub fn open(device: &'static Device, path: &str) -> Module {
        let mut bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        bytes.push(0); // source and PTX are strings
        if path.ends_with(".cu") {
            bytes = nvrtc::compile(path, &bytes);
        }
        Module { device, module: device.load(bytes.as_ptr().cast()) }
    }

    /// The kernel `name`, which is `extern "C"`.
    pub fn kernel(&self, name: &str) -> Kernel {
        let symbol = CString::new(name).expect("a name without a zero byte");
        let mut function = null_mut();
        // SAFETY: the module is never unloaded, and the output is a variable of this function.
        let result = unsafe { (self.device.driver.module_function)(&mut function, self.module, symbol.as_ptr()) };
        check("cuModuleGetFunction", result);
        Kernel { device: self.device, function }
    }
}

/// A function of the device.
pub struct Kernel {
    device: &'static Device,
    function: *mut c_void,
}

impl Kernel {
    const BLOCK: usize = 64;

    /// Launches at least `threads` threads.
    ///
    /// # Safety
    /// The arguments have the types of the kernel's parameters, and the kernel stays within their memory.
    pub unsafe fn launch(&self, threads: usize, arguments: &[Argument]) {
        let mut pointers: Vec<*mut c_void> = arguments.iter().map(Argument::pointer).collect();
        let blocks = ((threads + Self::BLOCK - 1) / Self::BLOCK) as c_uint;
        let (stream, block) = (self.device.stream, Self::BLOCK as c_uint);
        // SAFETY: the caller's promise; the driver copies the arguments before it returns.
        let result = unsafe {
            let launch = self.device.driver.launch;
            launch(self.function, blocks, 1, 1, block, 1, 1, 0, stream, pointers.as_mut_ptr(), null_mut())
        };
        check("cuLaunchKernel", result);
    }
}

impl Argument {
    fn pointer(&self) -> *mut c_void {
        match self {
            Argument::Address(address) => address as *const u64 as *mut c_void,
            Argument::Int(number) => number as *const c_int as *mut c_void,
            Argument::Float(number) => number as *const f32 as *mut c_void,
        }
    }
}
