//! Without ddprun a program is a world of one: every call does nothing, and gives what one process has.

use ddprun::{local_rank, rank, shard, world_size, Ddp, Group, Memory, Raw, Stream, Sum};
use std::cell::Cell;
use std::rc::Rc;

fn host(values: &[f32]) -> Rc<[Cell<f32>]> {
    values.iter().copied().map(Cell::new).collect()
}

/// Every rank of a job passes here, too, but is no world of one.
fn is_alone() -> bool {
    world_size() == 1
}

#[test]
fn numbers_of_one_process() {
    if !is_alone() {
        return;
    }
    let ddp = Ddp::take();
    assert_eq!((rank(), world_size(), local_rank()), (0, 1, 0));
    assert_eq!(shard(10).range(), 0..10);
    assert_eq!((shard(10).count(), shard(0).count()), (10, 0));
    assert_eq!((ddp.mean(1.5f32), ddp.mean_as("loss", 2.5f64)), (1.5, 2.5));
    assert_eq!((ddp.any(true), ddp.any(false)), (true, false));
}

#[test]
fn memory_stays_as_it_is() {
    if !is_alone() {
        return;
    }
    let mut ddp = Ddp::take();
    let weights = host(&[1.0, 2.0]);
    let parameter = ddp.parameter("w", Rc::clone(&weights));
    let gradient = ddp.group(Group::new(3)).gradient("dw", host(&[3.0]));
    ddp.weight(1, 2);
    ddp.step(Stream::DEFAULT);
    ddp.step_parameters(Stream::PER_THREAD);
    ddp.group(Group::new(3)).step(Stream::default());
    ddp.reduce(Sum, &weights, Stream::DEFAULT);
    ddp.reduce_slice(Sum, &mut [1u32, 2]);
    gradient.ready(Stream::DEFAULT);
    drop(ddp.no_sync());
    assert_eq!(weights[1].get(), 2.0);
    assert_eq!((parameter.count(), parameter.address()), (2, weights.address()));
    assert_eq!(gradient.forget()[0].get(), 3.0);
    assert_eq!(ddp.on_first_rank(|| 7), Some(7));
}

#[test]
fn turns_of_one_process() {
    if !is_alone() {
        return;
    }
    let mut ddp = Ddp::take();
    for _ in 0..3 {
        let turn = ddp.turn();
        assert!(turn.mine() && turn.updates());
        let update = turn.step(Stream::DEFAULT);
        assert!(update.mine() && update.updates() && update.any(true));
        assert_eq!(update.mean(4.0f32), 4.0);
    }
}

#[test]
fn an_annotation_owns_its_memory_until_it_ends() {
    struct Owner(Rc<Cell<bool>>);
    impl Drop for Owner {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    if !is_alone() {
        return;
    }
    let ddp = Ddp::take();
    let freed = Rc::new(Cell::new(false));
    // SAFETY: the memory has no elements.
    let raw = |freed: &Rc<Cell<bool>>| unsafe { Raw::<f32, _>::new(Owner(Rc::clone(freed)), 0, 0) };
    let kept = ddp.gradient("g", raw(&freed)).forget();
    assert!(!freed.get());
    drop(kept.into_owner());
    assert!(freed.replace(false));
    drop(ddp.state("s", raw(&freed)));
    assert!(freed.get());
}

#[test]
fn each_thread_of_a_program_without_ddprun_has_a_world() {
    if !is_alone() {
        return;
    }
    let _ddp = Ddp::take();
    std::thread::spawn(|| drop(Ddp::take())).join().expect("another thread takes one, too");
    std::thread::spawn(|| drop((Ddp::take(), Ddp::take()))).join().expect_err("a thread has one");
}

#[test]
#[should_panic(expected = "from 0 to 15")]
fn groups_have_numbers() {
    let _ = Group::new(16);
}
