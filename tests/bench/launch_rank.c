/*
 * launch_rank.c - the trainer of launch.py: becomes a rank by its first annotation, and leaves. It uses no GPU.
 *
 * `launch_rank`: asks how many ranks there are, and ends. `launch_rank idle`: rank 0 says which process is its ddprun
 * once all have joined, and every rank waits for the end of its process.
 */
#include "interpose/include/ddprun.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
    int world = DDP_WORLD_SIZE();
    if (argc < 2 || strcmp(argv[1], "idle") != 0)
        return world > 0 ? 0 : 1;
    float value = 1;
    DDP_MEAN(&value);
    if (DDP_RANK() == 0) {
        printf("%d\n", (int)getppid());
        fflush(stdout);
    }
    for (;;)
        pause();
}
