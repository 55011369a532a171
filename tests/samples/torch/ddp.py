"""The training of samples/torch in Python, by torch's DistributedDataParallel over gloo: ddp.py RANK RANKS DIGITS FILE.
Rank 0 writes the parameters to FILE, as samples/torch --save does. The ranks meet by FILE.meet."""
import sys

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

BATCH, SEED, EPOCHS = 60, 1, 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.input = torch.nn.Linear(64, 48)
        self.output = torch.nn.Linear(48, 10)

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


def main(rank, ranks, digits, path):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="file://" + path + ".meet", rank=rank, world_size=ranks)
    with open(digits) as file:
        rows = torch.tensor([[float(field) for field in line.split(",")] for line in file])
    images, labels = rows[:, :64] / 16, rows[:, 64].long()
    torch.manual_seed(SEED)
    net = Net()
    parallel = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    sampler = DistributedSampler(range(len(labels)), seed=SEED)
    batch = BATCH // ranks
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        order = list(sampler)
        for first in range(0, len(order) - batch + 1, batch):
            items = order[first:first + batch]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(parallel(images[items]), labels[items]).backward()
            optimizer.step()
    if rank == 0:
        write(net, path)


main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
