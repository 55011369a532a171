// States in memory set up by one kernel, used by another; dropout with Philox and four numbers at a time.
#include <curand_kernel.h>
__global__ void
setup(curandState *states, unsigned long long seed)
{
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    curand_init(seed, id, 0, &states[id]);
}
__global__ void
uniform(curandState *states, float *out)
{
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    curandState local = states[id];
    out[id] = curand_uniform(&local) + 0 * curand_normal(&local);
    states[id] = local;
}
__global__ void
dropout(float4 *x, float p, unsigned long long seed, int n4)
{
    curandStatePhilox4_32_10_t state;
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    curand_init(seed, i, 0, &state);
    if (i < n4) {
        const float4 r = curand_uniform4(&state);
        x[i].x *= r.x > p, x[i].y *= r.y > p, x[i].z *= r.z > p, x[i].w *= r.w > p;
    }
}
int
main()
{
    curandState *states;
    float *out, sum = 0, kept = 0;
    cudaMalloc(&states, 256 * sizeof(*states));
    cudaMallocManaged(&out, 1024 * 4);
    setup<<<4, 64>>>(states, 1234ULL);
    uniform<<<4, 64>>>(states, out);
    cudaDeviceSynchronize();
    for (int i = 0; i < 256; ++i)
        sum += out[i];
    for (int i = 0; i < 1024; ++i)
        out[i] = 1;
    dropout<<<8, 32>>>((float4 *)out, 0.25f, 7, 256);
    cudaDeviceSynchronize();
    for (int i = 0; i < 1024; ++i)
        kept += out[i];
    return sum > 100 && sum < 156 && kept > 690 && kept < 840 ? 0 : 1;
}
