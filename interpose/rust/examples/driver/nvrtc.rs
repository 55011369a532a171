//! CUDA C++ that the program compiles while it runs, by a library that is opened at run time, as the driver is.
use super::{look_up, try_open};
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// The names that toolkits give it.
const LIBRARIES: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

macro_rules! nvrtc {
    ($($field:ident = $name:literal ($($argument:ty),*);)*) => {
        struct Nvrtc {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }
        impl Nvrtc {
            fn open() -> Nvrtc {
                let library = LIBRARIES.iter().map(|name| try_open(name)).find(|library| !library.is_null());
                let library = library.unwrap_or_else(|| panic!("no NVRTC: none of {LIBRARIES:?} can be opened"));
                // SAFETY: the functions have these types in nvrtc.h.
                unsafe { Nvrtc { $($field: std::mem::transmute(look_up(library, $name)),)* } }
            }
        }
    };
}
nvrtc! {
    create = "nvrtcCreateProgram" (*mut *mut c_void, *const c_char, *const c_char, c_int, *const *const c_char,
                                   *const *const c_char);
    compile = "nvrtcCompileProgram" (*mut c_void, c_int, *const *const c_char);
    log_size = "nvrtcGetProgramLogSize" (*mut c_void, *mut usize);
    log = "nvrtcGetProgramLog" (*mut c_void, *mut c_char);
    ptx_size = "nvrtcGetPTXSize" (*mut c_void, *mut usize);
    ptx = "nvrtcGetPTX" (*mut c_void, *mut c_char);
    destroy = "nvrtcDestroyProgram" (*mut *mut c_void);
}

/// The text that a pair of functions gives, with its zero byte.
unsafe fn text(
    program: *mut c_void,
    size: unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int,
    get: unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int,
) -> Vec<u8> {
    let mut bytes = 0;
    // SAFETY: the caller's program is valid, and the text has room.
    unsafe {
        assert_eq!(size(program, &mut bytes), 0, "the size of what NVRTC has made");
        let mut text = vec![0u8; bytes];
        assert_eq!(get(program, text.as_mut_ptr().cast()), 0, "what NVRTC has made");
        text
    }
}

/// PTX of a source, a string of C, whose name messages show. Ends the program with the compiler's log if it is wrong.
pub fn compile(name: &str, source: &[u8]) -> Vec<u8> {
    let nvrtc = Nvrtc::open();
    let name = CString::new(name).expect("a name without a zero byte");
    let source = CStr::from_bytes_with_nul(source).expect("a source that ends with its zero byte");
    let mut program = null_mut();
    // SAFETY: strings and outputs live as long as the calls.
    unsafe {
        let created = (nvrtc.create)(&mut program, source.as_ptr(), name.as_ptr(), 0, null(), null());
        assert_eq!(created, 0, "nvrtcCreateProgram failed");
        if (nvrtc.compile)(program, 0, null()) != 0 {
            let log = text(program, nvrtc.log_size, nvrtc.log);
            panic!("{}", String::from_utf8_lossy(&log).trim_end_matches('\0'));
        }
        let ptx = text(program, nvrtc.ptx_size, nvrtc.ptx);
        assert_eq!((nvrtc.destroy)(&mut program), 0, "nvrtcDestroyProgram failed");
        ptx
    }
}
