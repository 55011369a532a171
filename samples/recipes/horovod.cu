/*
 * horovod.cu - a trainer that had Horovod's calls. A comment names the call that stood in each line's place.
 */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>

enum { ITEMS = 24, WEIGHTS = 4, STEPS = 30 };

__global__ void
backward(float *gradient, float *losses, const float *w, size_t first, size_t count)
{
    int j = threadIdx.x;
    gradient[j] = losses[j] = 0;
    for (size_t i = first; i < first + count; ++i) {
        float error = w[j] - 0.0625f * (float)(i * j);
        gradient[j] += error / (float)count;
        losses[j] += error * error / (float)count;
    }
}

__global__ void
update(float *w, const float *gradient)
{
    w[threadIdx.x] -= 0.25f * gradient[threadIdx.x];
}

int
main(void)
{
    /* horovod_init(): nothing; ddprun has started the ranks */
    cudaSetDevice(0); /* horovod_local_rank(): a rank sees one device, its own */
    float *w, *gradient, *losses, host[WEIGHTS];
    cudaMalloc((void **)&w, sizeof(host));
    cudaMalloc((void **)&gradient, sizeof(host));
    cudaMalloc((void **)&losses, sizeof(host));
    cudaMemset(w, 0, sizeof(host));
    DDP_PARAMETER(w, WEIGHTS, DDP_FLOAT32); /* broadcast(w, root rank 0) */
    DDP_GRADIENT(gradient, WEIGHTS, DDP_FLOAT32);
    size_t count = ITEMS / (size_t)DDP_WORLD_SIZE(); /* horovod_size() */
    size_t first = count * (size_t)DDP_RANK();       /* horovod_rank() */
    for (int step = 0; step < STEPS; ++step) {
        backward<<<1, WEIGHTS>>>(gradient, losses, w, first, count);
        DDP_STEP(0);                         /* allreduce(gradient, average), synchronize() */
        update<<<1, WEIGHTS>>>(w, gradient); /* with the rate of one process: its batch was divided */
        cudaMemcpy(host, losses, sizeof(host), cudaMemcpyDeviceToHost);
        float loss = host[0] + host[1] + host[2] + host[3];
        DDP_MEAN(&loss); /* allreduce(loss, average) */
        int seen = (int)count;
        DDP_REDUCE(&seen, 1, DDP_INT32, DDP_OP_SUM, 0); /* allreduce(seen, sum) */
        if (step % 10 == 9 && DDP_RANK() == 0)          /* horovod_rank() == 0 */
            printf("step %d: loss %.3f of %d items\n", step, (double)loss, seen);
    }
    cudaMemcpy(host, w, sizeof(host), cudaMemcpyDeviceToHost);
    if (DDP_RANK() == 0)
        printf("w %.4f %.4f %.4f %.4f\n", host[0], host[1], host[2], host[3]);
    /* horovod_shutdown(): nothing */
}
