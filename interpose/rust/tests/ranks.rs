//! Each call on device memory, alone and by `ddprun -n N`: what N ranks have is what the arithmetic gives. Skipped without
//! libcuda. With ddprun, `--test-threads=1`: tests follow each other in the same order on all ranks.

#[allow(dead_code)]
#[path = "../examples/driver/cuda.rs"]
mod cuda;

use cuda::{Device, DeviceBuffer};
use ddprun::{rank, shard, world_size, Ddp, Element, Group, Max, Mean, Memory, Min, Raw, Sum};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The device. Where there is no CUDA the test ends here.
macro_rules! device {
    () => {
        match std::panic::catch_unwind(Device::open) {
            Ok(device) => device,
            Err(_) if world_size() == 1 => return,
            Err(_) => panic!("a rank has a device"),
        }
    };
}

fn buffer<T: Element>(device: &'static Device, values: &[T]) -> DeviceBuffer<T> {
    let buffer = DeviceBuffer::zeros(device, values.len());
    buffer.write(values);
    buffer
}

fn values<T: Element + Default>(buffer: &DeviceBuffer<T>) -> Vec<T> {
    let mut values = vec![T::default(); buffer.count()];
    buffer.read(&mut values);
    values
}

/// 1 on rank 0, 2 on rank 1, ...; their mean.
fn own() -> f32 {
    rank() as f32 + 1.0
}

fn mean() -> f32 {
    (world_size() as f32 + 1.0) / 2.0
}

#[test]
fn parameters_and_state_begin_as_rank_0_has_them_and_gradients_are_averaged() {
    let device = device!();
    let ddp = Ddp::take();
    let weights = ddp.parameter("w", buffer(device, &[own(), 5.0]));
    let moment = ddp.state("moment", buffer(device, &[rank() as i32, 7]));
    let statistics = ddp.buffer("statistics", buffer(device, &[0.0f64]));
    let gradient = ddp.gradient("dw", Arc::new(buffer(device, &[0.0f32, 0.0])));
    assert_eq!((values(&weights), values(&moment)), (vec![1.0, 5.0], vec![0, 7]));
    for step in 0..4 {
        gradient.write(&[own(), step as f32]);
        statistics.write(&[f64::from(own())]);
        ddp.step(device.stream());
        assert_eq!(values(&gradient), [mean(), step as f32]);
        assert_eq!(values(&statistics), [1.0]);
    }
    // The same memory has a second training, as other tensors.
    let memory = gradient.forget();
    memory.write(&[own(), own()]);
    let again = ddp.parameter("w", Arc::clone(&memory));
    assert_eq!(values(&again), [1.0, 1.0]);
}

#[test]
fn groups_step_by_themselves() {
    const CRITIC: Group = Group::new(1);
    let device = device!();
    let ddp = Ddp::take();
    let actor = ddp.gradient("actor", buffer(device, &[0.0f32]));
    let critic = ddp.group(CRITIC).gradient("critic", buffer(device, &[0.0f32]));
    for _ in 0..3 {
        actor.write(&[own()]);
        critic.write(&[own() * 8.0]);
        ddp.group(CRITIC).step(device.stream());
        assert_eq!((values(&actor), values(&critic)), (vec![own()], vec![mean() * 8.0]));
        ddp.step(device.stream());
        assert_eq!((values(&actor), values(&critic)), (vec![mean()], vec![mean() * 8.0]));
    }
}

#[test]
fn unequal_shares_are_weighted() {
    let device = device!();
    let ddp = Ddp::take();
    let gradient = ddp.gradient("dw", buffer(device, &[0.0f32]));
    let items = 2 * world_size() + 1;
    for _ in 0..2 {
        let share = shard(items);
        ddp.weight(share.count(), share.total());
        gradient.write(&[share.range().sum::<usize>() as f32 / share.count() as f32]);
        ddp.step(device.stream());
        let wanted = (0..items).sum::<usize>() as f32 / items as f32;
        assert!((values(&gradient)[0] - wanted).abs() < 1e-5);
    }
}

#[test]
fn passes_of_an_accumulation_and_a_gradient_that_is_ready() {
    let device = device!();
    let mut ddp = Ddp::take();
    let gradient = ddp.gradient("dw", buffer(device, &[0.0f32]));
    for _ in 0..3 {
        {
            let _accumulates = ddp.no_sync();
            gradient.write(&[own() * 2.0]);
        }
        gradient.write(&[own()]);
        gradient.ready(device.stream());
        ddp.step(device.stream());
        assert_eq!(values(&gradient), [mean()]);
    }
}

#[test]
fn parameters_are_averaged_where_there_are_no_gradients() {
    const UPDATED_INSIDE: Group = Group::new(2);
    let device = device!();
    let ddp = Ddp::take();
    let group = ddp.group(UPDATED_INSIDE);
    let weights = group.parameter("w", buffer(device, &[0.0f32]));
    for _ in 0..3 {
        weights.write(&[own()]);
        weights.updated(device.stream());
        group.step_parameters(device.stream());
        assert_eq!(values(&weights), [mean()]);
    }
}

#[test]
fn host_memory_is_averaged_when_the_step_returns() {
    let device = device!();
    let ddp = Ddp::take();
    let host: Rc<[Cell<f32>]> = vec![Cell::new(0.0); 3].into();
    let gradient = ddp.gradient("dw", Rc::clone(&host));
    host[2].set(own());
    ddp.step(device.stream());
    assert_eq!((host[0].get(), host[2].get()), (0.0, mean()));
    drop(gradient);
}

#[test]
fn a_part_of_a_buffer() {
    let device = device!();
    let ddp = Ddp::take();
    let whole = buffer(device, &[own(), own(), own()]);
    let second = whole.address() + 4;
    // SAFETY: the annotation borrows `whole`, is dropped before it, and is not leaked.
    let part = ddp.gradient("part", unsafe { Raw::<f32, _>::new(&whole, second, 1) });
    ddp.step(device.stream());
    assert_eq!(values(part.owner()), [own(), mean(), own()]);
}

#[test]
fn sums_over_data() {
    let device = device!();
    let ddp = Ddp::take();
    let world = world_size();
    let counts = buffer(device, &[1i64, rank() as i64]);
    ddp.reduce(Sum, &counts, device.stream());
    assert_eq!(values(&counts), [world as i64, (world * (world - 1) / 2) as i64]);
    let sums = buffer(device, &[own()]);
    ddp.reduce(Mean, &sums, device.stream());
    assert_eq!(values(&sums), [mean()]);
    let mut ends = [rank() as u32, 9];
    ddp.reduce_slice(Max, &mut ends);
    assert_eq!(ends, [world as u32 - 1, 9]);
    ddp.reduce_slice(Min, &mut ends[..0]);
}

#[test]
fn numbers_over_all_ranks() {
    let _device = device!();
    let mut ddp = Ddp::take();
    assert_eq!((ddp.mean(own()), ddp.mean_as("own", f64::from(own()))), (mean(), f64::from(mean())));
    assert_eq!((ddp.any(rank() == world_size() - 1), ddp.any(false)), (true, false));
    assert_eq!(ddp.on_first_rank(|| 7).is_some(), rank() == 0);
}

/// Also of one rank.
fn ddprun_started() -> bool {
    std::env::var_os("LD_PRELOAD").map_or(false, |preloaded| preloaded.to_string_lossy().contains("libddprun"))
}

#[test]
fn one_thread_trains() {
    let _device = device!();
    let _ddp = Ddp::take();
    let other = std::thread::spawn(|| drop((shard(8), Ddp::take()))).join();
    assert_eq!(other.is_err(), ddprun_started());
}
