//! The shim's functions, as `struct ddp_interface` of `ddprun.h` lists them, and the places of calls for its messages.
//!
//! The shim is preloaded into programs that `ddprun` starts. `dlsym` finds it, as the header does: a weak reference does
//! not bind in every kind of executable, and without `ddprun` there is nothing to link with.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::panic::Location;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

/// The version of `struct ddp_interface` that is declared below. An older shim ends the program with one line.
const VERSION: c_uint = 6;

/// `struct ddp_site`: where a call stands. Never freed: the engine keeps pointers to it.
#[repr(C)]
pub(crate) struct Site {
    text: *const c_char,
    file: *const c_char,
    line: c_int,
}
// SAFETY: the strings are never written and never freed.
unsafe impl Sync for Site {}
unsafe impl Send for Site {}

type At = *const Site;
type MemoryCall = unsafe extern "C" fn(*mut c_void, usize, c_int, At);

/// `struct ddp_interface`, field by field.
#[repr(C)]
pub(crate) struct Interface {
    version: c_uint,
    pub(crate) parameter: MemoryCall,
    pub(crate) gradient: MemoryCall,
    step: unsafe extern "C" fn(*mut c_void, At),
    mean: unsafe extern "C" fn(*mut f32, At),
    pub(crate) shard: unsafe extern "C" fn(usize, *mut usize, *mut usize, At),
    pub(crate) forget: unsafe extern "C" fn(*mut c_void, At),
    pub(crate) rank: unsafe extern "C" fn() -> c_int,
    pub(crate) world_size: unsafe extern "C" fn() -> c_int,
    pub(crate) local_rank: unsafe extern "C" fn() -> c_int,
    pub(crate) gradient_group: unsafe extern "C" fn(c_int, At),
    pub(crate) step_group: unsafe extern "C" fn(c_int, *mut c_void, At),
    pub(crate) no_sync: unsafe extern "C" fn(c_int, At),
    pub(crate) buffer: MemoryCall,
    pub(crate) gradient_ready: unsafe extern "C" fn(*mut c_void, *mut c_void, At),
    pub(crate) state: MemoryCall,
    pub(crate) weight: unsafe extern "C" fn(usize, usize, At),
    mean_as: unsafe extern "C" fn(*const c_char, *mut f32, At),
    pub(crate) step_parameters: unsafe extern "C" fn(c_int, *mut c_void, At),
    sync: unsafe extern "C" fn(*mut c_void, At),
    pub(crate) reduce: unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, *mut c_void, At),
    pub(crate) mean_of: unsafe extern "C" fn(*const c_char, *mut c_void, c_int, At),
    pub(crate) any: unsafe extern "C" fn(*mut c_int, At) -> c_int,
    pub(crate) turn_begin: unsafe extern "C" fn(At) -> u64,
    pub(crate) turn_end: unsafe extern "C" fn(u64, At),
    pub(crate) turn_mine: unsafe extern "C" fn() -> c_int,
    pub(crate) turn_updates: unsafe extern "C" fn() -> c_int,
}

/// The shim's functions, or `None` when `ddprun` has not started the program. Any thread.
pub(crate) fn get() -> Option<&'static Interface> {
    static LOOKED: Once = Once::new();
    static FOUND: AtomicPtr<Interface> = AtomicPtr::new(std::ptr::null_mut());
    LOOKED.call_once(|| FOUND.store(look_up(), Ordering::Release));
    // SAFETY: the shim's table has static storage, and the version that was asked for.
    unsafe { FOUND.load(Ordering::Acquire).as_ref() }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn look_up() -> *mut Interface {
    #[link(name = "dl")]
    extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    type Query = unsafe extern "C" fn(c_uint) -> *mut Interface;
    // SAFETY: a null handle is RTLD_DEFAULT, the name ends with a zero byte, and a function of this name is the shim's.
    unsafe {
        let query = dlsym(std::ptr::null_mut(), b"ddprun_interface\0".as_ptr().cast());
        if query.is_null() {
            return std::ptr::null_mut();
        }
        std::mem::transmute::<*mut c_void, Query>(query)(VERSION)
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn look_up() -> *mut Interface {
    std::ptr::null_mut() // ddprun runs on Linux with glibc; elsewhere the program trains alone
}

/// A string for C, which ends at its first zero byte.
pub(crate) fn c_string(text: &str) -> CString {
    let before_zero = text.split('\0').next().unwrap_or("");
    CString::new(before_zero).unwrap_or_default()
}

/// A lock that a panic in another thread has not made useless: what it guards is whole after each statement.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The file's name by its address, line, column.
type Place = (usize, u32, u32);
/// What is annotated or called there, and its site.
type Named = (Box<str>, &'static Site);

/// The site of `text` at the place of the call in the user's program: the same pointer each time, as a static of C.
#[track_caller]
pub(crate) fn site(text: &str) -> &'static Site {
    static SITES: Mutex<Option<HashMap<Place, Vec<Named>>>> = Mutex::new(None);
    let place = Location::caller();
    let key = (place.file().as_ptr() as usize, place.line(), place.column());
    let mut sites = lock(&SITES);
    let there = sites.get_or_insert_with(HashMap::new).entry(key).or_default();
    if let Some((_, known)) = there.iter().find(|(known, _)| &**known == text) {
        return known;
    }
    let made: &'static Site = Box::leak(Box::new(Site {
        text: c_string(text).into_raw(),
        file: c_string(place.file()).into_raw(),
        line: place.line() as c_int,
    }));
    there.push((text.into(), made));
    made
}
