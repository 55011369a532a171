#include "model.h"
#include <stdlib.h>
#include <string.h>

static unsigned random_u32(unsigned long long *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (unsigned)((*state * 0x2545F4914F6CDD1Dull) >> 32);
}

void dataloader_init(DataLoader *loader, int B, int T, int V, int K, unsigned long long seed)
{
    loader->B = B; loader->T = T; loader->V = V; loader->K = K;
    loader->state = seed;
    loader->inputs = (int *)malloc(B * T * sizeof(int));
    loader->targets = (int *)malloc(B * sizeof(int));
}

/* the class is which of the first K tokens stands right after the marker (token V - 1); another of them may distract */
void dataloader_next_batch(DataLoader *loader)
{
    for (int b = 0; b < loader->B; b++) {
        int *row = loader->inputs + b * loader->T;
        for (int t = 0; t < loader->T; t++)
            row[t] = loader->K + random_u32(&loader->state) % (loader->V - loader->K - 1);
        int pos = random_u32(&loader->state) % (loader->T - 1);
        int cls = random_u32(&loader->state) % loader->K;
        if (random_u32(&loader->state) % 2) row[random_u32(&loader->state) % loader->T] = random_u32(&loader->state) % loader->K;
        row[pos] = loader->V - 1;
        row[pos + 1] = cls;
        loader->targets[b] = cls;
    }
}

void dataloader_free(DataLoader *loader)
{
    free(loader->inputs);
    free(loader->targets);
}
