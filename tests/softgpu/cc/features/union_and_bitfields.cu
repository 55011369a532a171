// Unions for type punning, bit-fields, enums with types, arrays of structs in shared memory, anonymous structs.
#include <cstdint>
enum Op : uint8_t { ADD = 1, MUL };
union Bits {
    float f;
    unsigned u;
    struct {
        unsigned mantissa : 23, exponent : 8, sign : 1;
    } parts;
};
struct Node {
    Op op;
    union {
        int left;
        float value;
    };
    unsigned depth : 4, leaf : 1;
};
__global__ void
k(unsigned *out)
{
    __shared__ Node nodes[8];
    Bits b;
    b.f = -8.0f;
    Node &n = nodes[threadIdx.x];
    n.op = threadIdx.x & 1 ? MUL : ADD;
    n.value = threadIdx.x;
    n.depth = threadIdx.x + 3;
    n.leaf = true;
    __syncthreads();
    const Node &o = nodes[7 - threadIdx.x];
    out[threadIdx.x] = b.parts.exponent + b.parts.sign + (int)o.value + (int)o.depth * 1000 + o.leaf + o.op;
}
int
main()
{
    unsigned *out = managed(32);
    k<<<1, 8>>>(out);
    cudaDeviceSynchronize();
    return out[0] == 130 + 1 + 7 + 10000 + 1 + 2 && out[7] == 130 + 1 + 0 + 3000 + 1 + 1 ? 0 : 1;
}
