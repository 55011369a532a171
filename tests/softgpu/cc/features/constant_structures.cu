// Constant memory that is a structure with arrays, partly written, asynchronously, at an offset.
struct layer {
    float weights[3];
    int kind;
};
__constant__ layer layers[2] = {{{1, 2, 3}, 7}, {{}, 8}};
__constant__ float scale = 0.5f;
__global__ void
k(float *out)
{
    const layer &mine = layers[threadIdx.x];
    out[threadIdx.x] = scale * (mine.weights[0] + mine.weights[1] + mine.weights[2]) + static_cast<float>(mine.kind);
}

int
main()
{
    float *out = managed(8);
    const layer second = {{4, 5, 6}, 9};
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMemcpyToSymbolAsync(layers, &second, sizeof(second), sizeof(layer), cudaMemcpyHostToDevice, stream);
    k<<<1, 2, 0, stream>>>(out);
    cudaStreamSynchronize(stream);
    layer back[2];
    cudaMemcpyFromSymbol(back, layers, sizeof(back));
    cudaStreamDestroy(stream);
    return out[0] != 10 || out[1] != 16.5f || back[1].kind != 9 || back[0].weights[2] != 3;
}
