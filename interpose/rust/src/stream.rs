//! Streams of CUDA, by their handles.

use std::os::raw::c_void;

/// A stream: a `CUstream` or `cudaStream_t`. Copying it copies the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(*mut c_void);

impl Stream {
    /// The legacy default stream: what 0 means in calls of the driver and of the runtime.
    pub const DEFAULT: Stream = Stream(1 as *mut c_void);
    /// The calling thread's default stream, of programs that use per-thread default streams.
    pub const PER_THREAD: Stream = Stream(2 as *mut c_void);

    /// A stream of the program. Null is [`Stream::DEFAULT`].
    ///
    /// # Safety
    /// `handle` is null, or a stream of the rank's device. It is not destroyed before the last call that gets this value:
    /// CUDA dereferences the handle.
    pub unsafe fn from_raw(handle: *mut c_void) -> Stream {
        if handle.is_null() {
            return Stream::DEFAULT;
        }
        Stream(handle)
    }

    pub(crate) fn handle(self) -> *mut c_void {
        self.0
    }
}

impl Default for Stream {
    /// [`Stream::DEFAULT`].
    fn default() -> Self {
        Stream::DEFAULT
    }
}
