//! Misuses that the compiler cannot see: `ends NAME` makes one, and the job ends with one line (crate.sh has the lines).

#[allow(dead_code)]
#[path = "../../interpose/rust/examples/driver/cuda.rs"]
mod cuda;

use cuda::{Device, DeviceBuffer};
use ddprun::{rank, shard, Ddp, Raw, Stream};

fn main() {
    let name = std::env::args().nth(1).expect("a misuse");
    let device = Device::open();
    let mut ddp = Ddp::take();
    let gradient = DeviceBuffer::<f32>::zeros(device, 8);
    match name.as_str() {
        "right" => {
            let _gradient = ddp.gradient("dw", gradient);
            ddp.step(device.stream());
        }
        // The annotations end with the program: what they held after the last step is compared all the same.
        "last-update" => {
            let weights = ddp.parameter("w", DeviceBuffer::<f32>::zeros(device, 8));
            let gradient = ddp.gradient("dw", gradient);
            for _ in 0..7 {
                gradient.write(&[rank() as f32 + 1.0]);
                ddp.step(device.stream());
            }
            weights.write(&[rank() as f32]);
        }
        "no-step" => {
            let weights = ddp.parameter("w", DeviceBuffer::<f32>::zeros(device, 8));
            let _gradient = ddp.gradient("dw", gradient);
            weights.write(&[1.0]);
        }
        "nothing" => ddp.step(Stream::DEFAULT),
        "twice" => drop(Ddp::take()),
        "thread" => std::thread::spawn(|| drop(Ddp::take())).join().unwrap_or_else(|_| std::process::exit(101)),
        "overlap" => {
            // SAFETY: the memory belongs to `gradient`, which is dropped later.
            let part = unsafe { Raw::<f32>::new((), ddprun::Memory::address(&gradient) + 4, 2) };
            let _part = ddp.gradient("part", part);
            let _gradient = ddp.gradient("dw", gradient);
        }
        "too-long" => {
            // SAFETY: none: the misuse is that the count is wrong.
            let long = unsafe { Raw::<f32>::new((), ddprun::Memory::address(&gradient), 1 << 40) };
            let _gradient = ddp.gradient("dw", long);
        }
        "names" => {
            let _gradient = ddp.gradient(&format!("dw of {}", rank()), gradient);
            ddp.step(device.stream());
        }
        "weight" => ddp.weight(9, 8),
        "label" => drop(ddp.mean_as("", 1.0f32)),
        "leaked-region" => {
            std::mem::forget(ddp.turn());
            drop(ddp.turn());
        }
        "share-in-turns" => {
            let _gradient = ddp.gradient("dw", gradient);
            let turn = ddp.turn();
            let _share = shard(8);
            turn.step(device.stream()).end();
        }
        _ => panic!("{name}: unknown misuse"),
    }
}
