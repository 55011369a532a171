// Pairs and quadruples of integers in a word, the n-th bit that is set, and a kernel that begins early by a launch
// attribute.
__managed__ unsigned words[16];
__managed__ float numbers[64], doubled[64];

__global__ void
pairs()
{
    words[0] = __vadd4(0x01ff7f80u, 0x01010101u);
    words[1] = __vsub2(0x00000005u, 0x00010003u);
    words[2] = __vmaxs4(0x7f80ff01u, 0x00000000u);
    words[3] = __vminu2(0xffff0003u, 0x00010004u);
    words[4] = __vabsdiffu4(0x05000a00u, 0x02010b00u);
    words[5] = __vcmpeq4(0x01020304u, 0x01000300u);
    words[6] = __vavgu4(0x01020304u, 0x01030304u);
    words[7] = __fns(0xf0f0u, 4, 3);
    words[8] = __fns(0xf0f0u, 9, -1);
    words[9] = __fns(0xf0u, 0, 5);
    words[10] = __vcmpgts2(0x80000001u, 0x00000000u);
    words[11] = __vcmpgtu2(0x80000001u, 0x00000000u);
}

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
    pairs<<<1, 1>>>();
    first<<<1, 64>>>();
    cudaLaunchAttribute early[1];
    early[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early[0].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 64;
    config.attrs = early;
    config.numAttrs = 1;
    if (cudaLaunchKernelEx(&config, second, 2.0f) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    const unsigned wanted[] = {0x02008081u, 0xffff0002u, 0x7f000001u, 0x00010003u, 0x03010100u, 0xff00ff00u,
                               0x01030304u, 6,           7,           0xffffffffu, 0x0000ffffu, 0xffffffffu};
    for (int i = 0; i < 12; ++i) {
        if (words[i] != wanted[i])
            return 10 + i;
    }
    for (int i = 0; i < 64; ++i) {
        if (doubled[i] != 2.0f * i)
            return 2;
    }
    return 0;
}
