//! A trainer over the CUDA driver's API, as cudarc and engines' trainers have it: the primary context, gradient buffers that
//! keep their memory, and one place between backward and update, where `ddp.step` stands.
//!
//! ```sh
//! nvcc -fatbin -o kernels.fatbin examples/driver/kernels.cu
//! cargo build --release --example driver
//! ddprun -n 2 target/release/examples/driver --kernels kernels.fatbin
//! ```
//!
//! Without a GPU, `softgpu-cc` takes the place of nvcc. With `--kernels kernels.cu` the program compiles the kernels itself, by
//! NVRTC. With `--turns` ranks take turns at whole batches in place of dividing each.

mod cuda;

use cuda::{Argument, Device, DeviceBuffer, Kernel, Module};
use ddprun::{shard, Ddp, Gradient, Parameter, State};
use std::fmt::Write;

const FEATURES: usize = 48;
const HIDDEN: usize = 16;
const ACTIVE: usize = 4;
const RATE: f32 = 0.05;

/// A launch whose arguments are written as in a call of the kernel.
macro_rules! launch {
    ($kernel:expr, $threads:expr, $($argument:expr),*) => {
        // SAFETY: the arguments are those of the kernel in kernels.cu, with room for what its threads write.
        unsafe { $kernel.launch($threads, &[$(Argument::from($argument)),*]) }
    };
}

struct Options {
    kernels: String,
    steps: usize,
    batch: usize,
    turns: bool,
    save: Option<String>,
}

fn options() -> Options {
    let mut options = Options { kernels: "kernels.fatbin".into(), steps: 40, batch: 12, turns: false, save: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word}: a value is missing"));
        match word.as_str() {
            "--kernels" => options.kernels = value(),
            "--steps" => options.steps = value().parse().expect("--steps N"),
            "--batch" => options.batch = value().parse().expect("--batch N"),
            "--save" => options.save = Some(value()),
            "--turns" => options.turns = true,
            _ => panic!("{word}: unknown option"),
        }
    }
    options
}

/// Items by their numbers: the same on all ranks.
struct Items {
    features: Vec<i32>,
    wanted: Vec<f32>,
}

impl Items {
    fn make(first: usize, count: usize) -> Items {
        let mut items = Items { features: Vec::new(), wanted: Vec::new() };
        for number in first..first + count {
            let mut sum = 0;
            for k in 0..ACTIVE {
                let feature = (number * 31 + k * 17 + number * number * k) % FEATURES;
                items.features.push(feature as i32);
                sum += feature % 7;
            }
            items.wanted.push(sum as f32 / 8.0 - 1.0);
        }
        items
    }
}

/// A tensor of weights with its gradient and momentum, all annotated; each keeps its memory.
struct Tensor {
    name: &'static str,
    weights: Parameter<DeviceBuffer<f32>>,
    gradient: Gradient<DeviceBuffer<f32>>,
    momentum: State<DeviceBuffer<f32>>,
    count: usize,
}

impl Tensor {
    fn new(ddp: &Ddp, device: &'static Device, name: &'static str, count: usize) -> Tensor {
        let values: Vec<f32> = (0..count).map(|i| ((i * 37 + count) % 19) as f32 / 64.0 - 0.125).collect();
        let weights = DeviceBuffer::zeros(device, count);
        weights.write(&values);
        Tensor {
            name,
            weights: ddp.parameter(name, weights), // after the initialisation: all ranks take rank 0's values
            gradient: ddp.gradient(name, DeviceBuffer::zeros(device, count)),
            momentum: ddp.state(name, DeviceBuffer::zeros(device, count)),
            count,
        }
    }
}

struct Kernels {
    forward: Kernel,
    loss: Kernel,
    backward_output: Kernel,
    backward_hidden: Kernel,
    momentum_step: Kernel,
}

struct Net {
    kernels: Kernels,
    rows: Tensor,
    bias: Tensor,
    output: Tensor,
    features: DeviceBuffer<i32>,
    wanted: DeviceBuffer<f32>,
    hidden: DeviceBuffer<f32>,
    value: DeviceBuffer<f32>,
    delta: DeviceBuffer<f32>,
    item_loss: DeviceBuffer<f32>,
}

impl Net {
    fn new(ddp: &Ddp, device: &'static Device, path: &str, batch: usize) -> Net {
        let module = Module::open(device, path);
        let load = |name| module.kernel(name);
        Net {
            kernels: Kernels {
                forward: load("forward"),
                loss: load("loss"),
                backward_output: load("backward_output"),
                backward_hidden: load("backward_hidden"),
                momentum_step: load("momentum_step"),
            },
            rows: Tensor::new(ddp, device, "rows", FEATURES * HIDDEN),
            bias: Tensor::new(ddp, device, "bias", HIDDEN),
            output: Tensor::new(ddp, device, "output", HIDDEN + 1),
            features: DeviceBuffer::zeros(device, batch * ACTIVE),
            wanted: DeviceBuffer::zeros(device, batch),
            hidden: DeviceBuffer::zeros(device, batch * HIDDEN),
            value: DeviceBuffer::zeros(device, batch),
            delta: DeviceBuffer::zeros(device, batch),
            item_loss: DeviceBuffer::zeros(device, batch),
        }
    }

    fn load(&self, items: &Items) {
        self.features.write(&items.features);
        self.wanted.write(&items.wanted);
    }

    /// Of the items that are loaded. The gradients are those of their mean loss.
    fn forward_and_backward(&self, count: usize) {
        let (net, kernels) = (self, &self.kernels);
        let (rows, bias, output) = (&net.rows, &net.bias, &net.output);
        launch!(kernels.forward, count, &net.features, &rows.weights, &bias.weights, &output.weights, &net.hidden,
                &net.value, HIDDEN, count);
        launch!(kernels.loss, count, &net.value, &net.wanted, &net.delta, &net.item_loss, count);
        launch!(kernels.backward_output, HIDDEN + 1, &net.hidden, &net.delta, &output.gradient, HIDDEN, count);
        launch!(kernels.backward_hidden, (FEATURES + 1) * HIDDEN, &net.features, &net.hidden, &net.delta,
                &output.weights, &rows.gradient, &bias.gradient, FEATURES, HIDDEN, count);
    }

    fn update(&self, rate: f32) {
        for tensor in [&self.rows, &self.bias, &self.output] {
            launch!(self.kernels.momentum_step, tensor.count, &tensor.weights, &tensor.gradient, &tensor.momentum, rate,
                    tensor.count);
        }
    }

    /// The mean loss of the items that were computed last.
    fn loss(&self, count: usize) -> f32 {
        let mut losses = vec![0.0; count];
        self.item_loss.read(&mut losses);
        losses.iter().sum::<f32>() / count as f32
    }

    /// A line for each weight: tensor, number, value.
    fn text(&self) -> String {
        let mut text = String::new();
        for tensor in [&self.rows, &self.bias, &self.output] {
            let mut values = vec![0.0; tensor.count];
            tensor.weights.read(&mut values);
            for (i, value) in values.iter().enumerate() {
                writeln!(text, "{}[{}] {:.9e}", tensor.name, i, value).expect("a string takes all text");
            }
        }
        text
    }
}

/// Each batch is divided among the ranks.
fn train_by_shares(ddp: &Ddp, net: &Net, device: &Device, options: &Options) -> f32 {
    let mut loss = 0.0;
    for step in 0..options.steps {
        let share = shard(options.batch);
        ddp.weight(share.count(), share.total()); // shares may differ by an item
        net.load(&Items::make(step * options.batch + share.first(), share.count()));
        net.forward_and_backward(share.count());
        ddp.step(device.stream()); // from here on the gradients hold the mean over all ranks
        net.update(RATE);
        if step + 1 == options.steps {
            loss = ddp.mean_as("loss", net.loss(share.count()));
        }
    }
    loss
}

/// Ranks take turns at whole batches: N batches make one update.
fn train_by_turns(ddp: &mut Ddp, net: &Net, device: &Device, options: &Options) -> f32 {
    for step in 0..options.steps {
        net.load(&Items::make(step * options.batch, options.batch)); // on all ranks
        let turn = ddp.turn();
        net.forward_and_backward(options.batch); // on the device of the rank whose turn it is
        let _update = turn.step(device.stream());
        net.update(RATE); // once a round
    }
    ddp.mean_as("loss", net.loss(options.batch))
}

fn main() {
    let options = options();
    let mut ddp = Ddp::take();
    let device = Device::open();
    let net = Net::new(&ddp, device, &options.kernels, options.batch);
    let loss = match options.turns {
        false => train_by_shares(&ddp, &net, device, &options),
        true => train_by_turns(&mut ddp, &net, device, &options),
    };
    ddp.on_first_rank(|| {
        println!("loss {loss:.4}");
        if let Some(path) = &options.save {
            std::fs::write(path, net.text()).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    });
}
