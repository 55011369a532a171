/*
 * arithmetic.cu - have the kernels that scale gradients and move state by groups of elements the bits of plain
 * arithmetic? A line for each, for first.sh: its name, what is expected, what is seen, and a verdict, with tabs
 * between.
 *
 *   quotients  of all floats (on the stand-in of some) by numbers of ranks and weights, as value / over
 *   state      of chunks of any alignment and length, as one element after the other
 *
 * Exit code 1 if a CUDA call fails.
 */
#include "comm/kernels/kernels.cu"

namespace state
{
#include "tools/plan/trainer/kernels/kernels.cu"
}

#include <stdio.h>
#include <stdlib.h>

using state::state_chunk;

enum { SHIFT = 5, ODD_COUNT = 4093 };

static void
require(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "arithmetic: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

__device__ static unsigned long long differing;

template <typename Element>
__device__ static bool
has_other_bits(const Element &a, const Element &b)
{
    bool differs = false;
    for (unsigned i = 0; i < sizeof(Element); ++i)
        differs |= ((const unsigned char *)&a)[i] != ((const unsigned char *)&b)[i];
    return differs;
}

template <typename Number, typename Bits>
__global__ void
compare_quotients(double over, Bits first, Bits step, unsigned long long count)
{
    const scaled<Number> work(1, over);
    const unsigned long long all = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += all) {
        const Bits bits = first + (Bits)i * step;
        Number value;
        memcpy(&value, &bits, sizeof(value));
        const Number mine = work(value), plain = value / (Number)over;
        if (has_other_bits(mine, plain) && (mine == mine || plain == plain))
            atomicAdd(&differing, 1ull);
    }
}

static unsigned long long
take_differing(void)
{
    unsigned long long found = 0, none = 0;
    require(cudaDeviceSynchronize(), "comparing");
    require(cudaMemcpyFromSymbol(&found, differing, sizeof(found)), "cudaMemcpyFromSymbol");
    require(cudaMemcpyToSymbol(differing, &none, sizeof(none)), "cudaMemcpyToSymbol");
    return found;
}

static void
print(const char *name, unsigned long long found, unsigned long long of)
{
    printf("%s\tthe bits of plain arithmetic\t%llu of %llu differ\t%s\n", name, found, of,
           found == 0 ? "ok" : "differs");
}

static void
print_quotients(bool is_short)
{
    static const double overs[] = {2, 3, 5, 6, 7, 8, 12, 24, 56, 80, 1000, 3.7, 0.3, 1e-3, 0x1.fffffep0, 1e9};
    const unsigned long long floats = is_short ? 1 << 16 : 1ull << 32, doubles = is_short ? 1 << 16 : 1ull << 28;
    unsigned long long found = 0, found64 = 0;
    for (double over : overs) {
        compare_quotients<float, unsigned><<<256, 256>>>(over, 12345u, is_short ? 65521u : 1u, floats);
        found += take_differing();
        compare_quotients<double, unsigned long long>
            <<<256, 256>>>(over, 0x3ff0000000012345ull, 0x9e3779b97f4a7c15ull, doubles);
        found64 += take_differing();
    }
    print("quotients of float32", found, floats * sizeof(overs) / sizeof(overs[0]));
    print("quotients of float64", found64, doubles * sizeof(overs) / sizeof(overs[0]));
}

/* ---- state ---- */

template <typename Format>
__global__ void
plainly(state_chunk mine, state_chunk other, int step)
{
    using bits = typename Format::bits;
    using wide = typename Format::wide;
    for (unsigned i = threadIdx.x; i < mine.count; i += blockDim.x) {
        bits *value = (bits *)other.value + i, *begin = (bits *)other.begin + i;
        wide *change = (wide *)other.change + i;
        if (step == 0)
            *change = *value == *begin ? wide(0) : Format::widen(*value) - Format::widen(*begin);
        else if (step == 1)
            *value = *change == wide(0) ? *begin : Format::narrow(Format::widen(*begin) + *change);
        else
            *begin = *value;
        if (has_other_bits(*value, ((bits *)mine.value)[i]) || has_other_bits(*begin, ((bits *)mine.begin)[i]) ||
            has_other_bits(*change, ((wide *)mine.change)[i]))
            atomicAdd(&differing, 1ull);
    }
}

/* Numbers from 1 to 2, every seventh of them as it was. */
template <typename Format>
__global__ void
fill(state_chunk chunk, unsigned seed)
{
    for (unsigned i = threadIdx.x; i < chunk.count; i += blockDim.x) {
        const unsigned random = (i * 2654435761u + seed) >> 8;
        ((typename Format::bits *)chunk.begin)[i] = Format::narrow(typename Format::wide(1) + (random & 0xff));
        ((typename Format::bits *)chunk.value)[i] = Format::narrow(typename Format::wide(1) + (random >> 8 & 0xff));
        if (i % 7 == 0)
            ((typename Format::bits *)chunk.value)[i] = ((typename Format::bits *)chunk.begin)[i];
        ((typename Format::wide *)chunk.change)[i] = typename Format::wide(random & 0xff);
    }
}

template <typename Format>
static unsigned long long
compare_state(unsigned type, unsigned shift, unsigned count)
{
    const size_t room = 1 << 16;
    char *memory;
    state_chunk *table;
    require(cudaMalloc((void **)&memory, 6 * room), "cudaMalloc");
    require(cudaMalloc((void **)&table, sizeof(*table)), "cudaMalloc");
    const uint64_t at = (uint64_t)memory + shift * sizeof(typename Format::bits);
    const state_chunk chunk = {at, at + room, (uint64_t)memory + 2 * room, count, type};
    const state_chunk other = {at + 3 * room, at + 4 * room, (uint64_t)memory + 5 * room, count, type};
    fill<Format><<<1, 256>>>(chunk, shift);
    fill<Format><<<1, 256>>>(other, shift);
    require(cudaMemcpy(table, &chunk, sizeof(chunk), cudaMemcpyHostToDevice), "cudaMemcpy");
    state::ddprun_state_change<<<1, 256>>>(table, 1, 0, nullptr);
    plainly<Format><<<1, 256>>>(chunk, other, 0);
    state::ddprun_state_apply<<<1, 256>>>(table, 1, state::state_mean{1, 1}, nullptr);
    plainly<Format><<<1, 256>>>(chunk, other, 1);
    state::ddprun_state_keep<<<1, 256>>>(table, 1, 0);
    plainly<Format><<<1, 256>>>(chunk, other, 2);
    const unsigned long long found = take_differing();
    require(cudaFree(memory), "cudaFree");
    require(cudaFree(table), "cudaFree");
    return found;
}

static void
print_state(void)
{
    unsigned long long found = 0, of = 0;
    for (unsigned shift = 0; shift < SHIFT; ++shift) {
        for (unsigned count : {1u, 3u, 255u, (unsigned)ODD_COUNT, (unsigned)state::STATE_CHUNK}) {
            found += compare_state<state::float32>(1, shift, count) + compare_state<state::float64>(2, shift, count) +
                     compare_state<state::float16>(3, shift, count) + compare_state<state::bfloat16>(4, shift, count) +
                     compare_state<state::whole32>(5, shift, count) + compare_state<state::whole64>(6, shift, count);
            of += 6ull * 3 * count;
        }
    }
    print("changes of state by groups", found, of);
}

int
main(int argc, char **argv)
{
    print_quotients(argc > 1 && strcmp(argv[1], "short") == 0);
    print_state();
    return 0;
}
