// cudaGetSymbolAddress: device variables as arguments of kernels, of memsets and copies; symbols of a namespace and a
// class.
namespace net
{
__device__ float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
struct State {
    int count;
    float last;
};
__device__ State state;
} // namespace net
__global__ void
double_all(float *p)
{
    p[threadIdx.x] *= 2;
    net::state.count += threadIdx.x == 0;
}

int
main()
{
    float *weights, host[8];
    void *state;
    if (cudaGetSymbolAddress((void **)&weights, net::weights) != cudaSuccess ||
        cudaGetSymbolAddress(&state, net::state) != cudaSuccess)
        return 1;
    cudaMemset(state, 0, sizeof(net::State));
    double_all<<<1, 4>>>(weights + 4);
    double_all<<<1, 2>>>(weights);
    cudaMemcpy(host, weights, sizeof(host), cudaMemcpyDeviceToHost);
    net::State s;
    cudaMemcpyFromSymbol(&s, net::state, sizeof(s));
    const float nine = 9;
    cudaMemcpyToSymbol(net::weights, &nine, sizeof(nine), 3 * sizeof(float));
    float three[2];
    cudaMemcpyFromSymbol(three, net::weights, sizeof(three), 2 * sizeof(float));
    if (host[0] != 2 || host[2] != 3 || host[7] != 16 || s.count != 2)
        return 2;
    return three[0] == 3 && three[1] == 9 ? 0 : 3;
}
