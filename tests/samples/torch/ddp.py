"""The training of samples/torch in Python, by torch's DistributedDataParallel over gloo, or of one process:
ddp.py RANK RANKS DIGITS FILE [--epochs N] [--batch N] [--hidden N] [--time STEPS] [--meet ADDRESS:PORT].
Rank 0 writes the parameters to FILE, as samples/torch --save does, and prints the median time of the last STEPS steps. The ranks meet by
FILE.meet, or at ADDRESS."""
import argparse
import statistics
import time

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

SEED = 1


class Net(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.input = torch.nn.Linear(64, hidden)
        self.output = torch.nn.Linear(hidden, 10)

    def forward(self, images):
        return self.output(torch.relu(self.input(images)))


def write(net, path):
    named = list(net.named_parameters())
    with open(path, "wb") as file:
        file.write(b"parameters 1\n")
        for name, value in named:
            file.write(b"%s %d\n" % (name.encode(), value.numel()))
        file.write(b"\n")
        for _, value in named:
            file.write(value.detach().numpy().tobytes())


def average(net, wish):
    if wish.ranks == 1:
        return net
    meet = "tcp://" + wish.meet if wish.meet else "file://" + wish.file + ".meet"
    torch.distributed.init_process_group("gloo", init_method=meet, rank=wish.rank, world_size=wish.ranks)
    return DistributedDataParallel(net)


def show_time(ends, steps):
    times = [1000 * (end - begin) for begin, end in zip(ends, ends[1:])]
    if steps > 0 and times:
        print(f"step {statistics.median(times[-steps:]):.4f} ms")


def main(wish):
    torch.set_num_threads(1)
    with open(wish.digits) as file:
        rows = torch.tensor([[float(field) for field in line.split(",")] for line in file])
    images, labels = rows[:, :64] / 16, rows[:, 64].long()
    torch.manual_seed(SEED)
    net = Net(wish.hidden)
    parallel = average(net, wish)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    sampler = DistributedSampler(range(len(labels)), wish.ranks, wish.rank, seed=SEED)
    batch, ends = wish.batch // wish.ranks, []
    for epoch in range(wish.epochs):
        sampler.set_epoch(epoch)
        order = list(sampler)
        for first in range(0, len(order) - batch + 1, batch):
            items = order[first:first + batch]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(parallel(images[items]), labels[items])
            loss.backward()
            optimizer.step()
            loss.item()  # as a trainer reads it for its log
            ends.append(time.monotonic())
    if wish.ranks > 1:
        torch.distributed.destroy_process_group()
    if wish.rank == 0:
        write(net, wish.file)
        show_time(ends, wish.time)


parser = argparse.ArgumentParser(description=__doc__)
for name, kind in ("rank", int), ("ranks", int), ("digits", str), ("file", str):
    parser.add_argument(name, type=kind)
for name, number in ("--epochs", 2), ("--batch", 60), ("--hidden", 48), ("--time", 0):
    parser.add_argument(name, type=int, default=number)
parser.add_argument("--meet")
main(parser.parse_args())
