//! Turns on device memory, alone and by `ddprun -n N`. A program of its own: with turns it may not divide batches.

#[allow(dead_code)]
#[path = "../examples/driver/cuda.rs"]
mod cuda;

use cuda::{Device, DeviceBuffer};
use ddprun::{rank, world_size, Ddp};

#[test]
fn a_round_is_one_batch_of_each_rank() {
    let device = match std::panic::catch_unwind(Device::open) {
        Ok(device) => device,
        Err(_) if world_size() == 1 => return, // there is no CUDA
        Err(_) => panic!("a rank has a device"),
    };
    let mut ddp = Ddp::take();
    let gradient = ddp.gradient("dw", DeviceBuffer::<f32>::zeros(device, 1));
    let world = world_size();
    let mut updates = 0;
    for batch in 0..1 + 5 * world {
        gradient.write(&[batch as f32]); // a copy from the host runs on all ranks
        let turn = ddp.turn();
        // All ranks have the first batch, which is a round by itself.
        assert_eq!(turn.mine(), batch == 0 || (batch - 1) % world == rank());
        let completes = batch == 0 || batch % world == 0;
        assert_eq!(turn.updates(), completes);
        let update = turn.step(device.stream());
        assert_eq!(update.updates(), completes);
        if update.updates() {
            updates += 1;
            assert_eq!(update.mean(rank() as f32), (world as f32 - 1.0) / 2.0);
            assert!(update.any(rank() == 0));
        }
        update.end();
    }
    assert_eq!(updates, 6);
}
