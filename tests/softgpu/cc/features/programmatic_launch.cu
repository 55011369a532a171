// A kernel that begins early by a launch attribute; its argument is converted to the parameter's type.
__managed__ float numbers[64], doubled[64];

__global__ void
first()
{
    numbers[threadIdx.x] = threadIdx.x;
    cudaTriggerProgrammaticLaunchCompletion();
}

__global__ void
second(float by)
{
    cudaGridDependencySynchronize();
    doubled[threadIdx.x] = by * numbers[threadIdx.x];
}

int
main()
{
    first<<<1, 64>>>();
    cudaLaunchAttribute early[1];
    early[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early[0].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 64;
    config.attrs = early;
    config.numAttrs = 1;
    if (cudaLaunchKernelEx(&config, second, 2) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    for (int i = 0; i < 64; ++i) {
        if (doubled[i] != 2.0f * i)
            return 2;
    }
    return 0;
}
