//! Right uses of the crate ddprun. Each `#[cfg(NAME)] // ERROR` adds a misuse: with `--cfg NAME` the compiler refuses the file by
//! that error alone. crate.sh compiles it once as it is, and once for each misuse.
#![allow(dead_code, unused_variables)]
#![deny(unused_must_use)]

use ddprun::{Ddp, Gradient, Group, Memory, Raw, Stream, Sum};
use std::cell::Cell;
use std::rc::Rc;

struct Buffer<T>(Vec<T>);
// SAFETY: the vector is never resized.
unsafe impl<T: ddprun::Element> Memory for Buffer<T> {
    type Element = T;
    fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }
    fn count(&self) -> usize {
        self.0.len()
    }
}

fn floats() -> Buffer<f32> {
    Buffer(vec![0.0; 4])
}

fn integers() -> Buffer<i64> {
    Buffer(vec![0; 4])
}

#[cfg(static_handle)] // E0277
static HANDLE: std::sync::Mutex<Option<Ddp>> = std::sync::Mutex::new(None);
#[cfg(static_annotation)] // E0277
static KEPT: std::sync::Mutex<Option<Gradient<Buffer<f32>>>> = std::sync::Mutex::new(None);
#[cfg(group_number)] // E0080
const SIXTEENTH: Group = Group::new(16);

fn annotations(ddp: &Ddp) {
    #[cfg(integer_gradient)] // E0277
    let _gradient = ddp.gradient("g", integers());
    #[cfg(integer_parameter)] // E0277
    let _parameter = ddp.parameter("w", integers());
    #[cfg(unsigned_state)] // E0277
    let _state = ddp.state("s", Buffer(vec![0u64]));
    let _state = ddp.state("s", integers());
    #[cfg(plain_slice)] // E0277
    let _host = ddp.gradient("g", vec![0f32].into_boxed_slice());
    let _host = ddp.gradient("g", vec![Cell::new(0f32)].into_boxed_slice());
    #[cfg(borrowed_without_promise)] // E0277
    let _borrowed = ddp.gradient("g", &floats());
    #[cfg(address_without_promise)] // E0133
    let _raw = ddp.gradient("g", Raw::<f32>::new((), 0, 0));
    #[cfg(dropped_at_once)] // unused
    {
        ddp.gradient("g", floats());
    }
    let parameter = ddp.group(Group::new(15)).parameter("w", floats());
    #[cfg(parameter_for_gradient)] // E0308
    let _gradient: Gradient<Buffer<f32>> = parameter;
}

fn buffer_dropped_before_its_annotation(ddp: &Ddp) {
    let buffer = floats();
    // SAFETY: the annotation is dropped before the buffer, and not leaked.
    let gradient = ddp.gradient("g", unsafe { Raw::<f32, _>::new(&buffer, buffer.address(), 4) });
    #[cfg(buffer_dropped)] // E0505
    drop(buffer);
    ddp.step(Stream::DEFAULT);
    drop(gradient);
}

fn buffer_used_after_its_annotation(ddp: &Ddp) {
    let buffer = floats();
    #[allow(unused_mut)]
    let mut gradient = ddp.gradient("g", buffer);
    #[cfg(buffer_used)] // E0382
    drop(buffer);
    #[cfg(buffer_replaced)] // E0596
    let _old = std::mem::replace(&mut *gradient, floats());
    #[cfg(buffer_changed_without_promise)] // E0133
    let _memory = gradient.get_mut();
}

fn reductions(ddp: &Ddp) {
    let gradient = ddp.gradient("g", floats());
    #[cfg(mean_of_integers)] // E0277
    ddp.reduce(ddprun::Mean, &integers(), Stream::DEFAULT);
    ddp.reduce(Sum, &integers(), Stream::DEFAULT);
    #[cfg(reduced_gradient)] // E0277
    ddp.reduce(Sum, &gradient, Stream::DEFAULT);
    #[cfg(reduced_bytes)] // E0277
    ddp.reduce_slice(Sum, &mut [0u8]);
    #[cfg(mean_of_a_count)] // E0277
    let _count = ddp.mean(3usize);
}

fn turns(mut ddp: Ddp) {
    let turn = ddp.turn();
    #[cfg(region_in_region)] // E0499
    drop(ddp.turn());
    #[cfg(step_outside_of_the_region)] // E0502
    ddp.step(Stream::DEFAULT);
    #[cfg(mean_before_the_step)] // E0502
    let _mean = ddp.mean(1f32);
    #[cfg(guard_in_another_thread)] // E0277
    std::thread::scope(|scope| drop(scope.spawn(|| drop(turn))));
    let update = turn.step(Stream::DEFAULT);
    #[cfg(second_step)] // E0382
    drop(turn.step(Stream::DEFAULT));
    drop(update);
    ddp.step(Stream::DEFAULT);
}

fn accumulation(mut ddp: Ddp) {
    let passes = ddp.no_sync();
    #[cfg(step_between_passes)] // E0502
    ddp.step(Stream::DEFAULT);
    drop(passes);
}

fn threads(mut ddp: Ddp) {
    #[cfg(handle_in_another_thread)] // E0277
    std::thread::spawn(move || ddp.step(Stream::DEFAULT));
    #[cfg(wait_on_one_rank)] // E0502
    ddp.on_first_rank(|| ddp.mean(1f32));
    let _saved = ddp.on_first_rank(|| ddprun::rank());
    let host: Rc<[Cell<f32>]> = vec![Cell::new(0f32)].into();
    #[cfg(host_memory_in_another_thread)] // E0277
    std::thread::spawn(move || host[0].set(1.0));
}

#[cfg(stream_without_promise)] // E0133
fn stream(handle: *mut std::os::raw::c_void) -> Stream {
    Stream::from_raw(handle)
}
