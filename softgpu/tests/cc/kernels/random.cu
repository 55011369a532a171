/*
 * random.cu - <curand_kernel.h>: Philox gives the numbers of its authors' known-answer test, XORWOW those of
 * Marsaglia's recurrence; jumps arrive where single steps do; uniform and normal numbers follow from the bits as they
 * are defined, one at a time and four.
 */
#include "check.h"

#include <curand_kernel.h>

#include <algorithm>

typedef unsigned long long u64;

/* ---- Philox ---- */

/* Random123's kat_vectors, philox4x32 with 10 rounds: counter, key, answer. */
struct known_answer {
    unsigned counter[4], key[2], answer[4];
};
static const known_answer known_answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static u64
join(const unsigned *low_high)
{
    return static_cast<u64>(low_high[1]) << 32 | low_high[0];
}

__global__ void
philox_at(u64 seed, u64 subsequence, u64 block, unsigned *out)
{
    curandStatePhilox4_32_10_t state;
    curand_init(seed, subsequence, 0, &state);
    for (int i = 0; i < 4; ++i) /* four numbers are a block; 4 * block itself would not fit */
        skipahead(block, &state);
    for (int i = 0; i < 4; ++i)
        out[i] = curand(&state);
}

static void
test_known_answers()
{
    for (const known_answer &known : known_answers) {
        buffer<unsigned> out(4);
        RUN(philox_at<<<1, 1>>>(join(known.key), join(known.counter + 2), join(known.counter), out.data));
        expect_equal(out.read(), std::vector<unsigned>(known.answer, known.answer + 4), "known answer of Philox");
    }
}

/* ---- sequences: both generators ---- */

template <class State>
__global__ void
draw(u64 seed, u64 subsequence, u64 offset, unsigned *out, int n)
{
    State state;
    curand_init(seed, subsequence, offset, &state);
    for (int i = 0; i < n; ++i)
        out[i] = curand(&state);
}

template <class State>
static std::vector<unsigned>
drawn(u64 seed, u64 subsequence, u64 offset, int n)
{
    buffer<unsigned> out(n);
    RUN(draw<State><<<1, 1>>>(seed, subsequence, offset, out.data, n));
    return out.read();
}

/* `skip` numbers, by skipahead in two parts, from where `before` numbers were drawn. */
template <class State>
__global__ void
skip_then_draw(u64 seed, int before, u64 first, u64 second, unsigned *out, int n)
{
    State state;
    curand_init(seed, 3, 0, &state);
    for (int i = 0; i < before; ++i)
        curand(&state);
    skipahead(first, &state);
    skipahead(second, &state);
    for (int i = 0; i < n; ++i)
        out[i] = curand(&state);
}

/* One subsequence further, by as many single numbers as it is long: `times` * `length`. */
template <class State>
__global__ void
whole_subsequence(int times, u64 length, unsigned *out)
{
    State one, many;
    curand_init(77, 5, 0, &one);
    many = one;
    skipahead_sequence(1, &one);
    for (int i = 0; i < times; ++i)
        skipahead(length, &many);
    out[0] = curand(&one);
    out[1] = curand(&many);
    curand_init(77, 6, 0, &many);
    out[2] = curand(&many);
}

template <class State>
static void
test_jumps(int log2_of_subsequence)
{
    const int n = 5000;
    const std::vector<unsigned> all = drawn<State>(1234, 3, 0, n);
    for (int round = 0; round < 40; ++round) {
        const int before = random_source()() % 10, first = random_source()() % 2000, second = random_source()() % 2000;
        const int offset = before + first + second, left = 50;
        const std::vector<unsigned> wanted(all.begin() + offset, all.begin() + offset + left);
        expect_equal(drawn<State>(1234, 3, offset, left), wanted, "offset");
        buffer<unsigned> out(left);
        RUN(skip_then_draw<State><<<1, 1>>>(1234, before, first, second, out.data, left));
        expect_equal(out.read(), wanted, "skipahead");
    }
    buffer<unsigned> out(3);
    RUN(whole_subsequence<State><<<1, 1>>>(1 << (log2_of_subsequence - 63), 1ull << 63, out.data));
    const std::vector<unsigned> got = out.read();
    CHECK(got[0] == got[1] && got[0] == got[2], "a subsequence is 2^%d numbers: %x %x %x", log2_of_subsequence, got[0],
          got[1], got[2]);
    CHECK(drawn<State>(1, 0, 0, 4) != drawn<State>(2, 0, 0, 4), "seeds differ");
    CHECK(drawn<State>(1, 0, 0, 4) != drawn<State>(1ull << 32 | 1, 0, 0, 4), "all 64 bits of the seed count");
    CHECK(drawn<State>(0, 0, 0, 4) != std::vector<unsigned>(4, 0), "seed 0 works");
}

/* ---- XORWOW is Marsaglia's ---- */

__global__ void
xorwow_from(curandStateXORWOW_t *state, unsigned *out, int n)
{
    curandState mine = *state;
    for (int i = 0; i < n; ++i)
        out[i] = curand(&mine);
    *state = mine;
}

static void
test_marsaglia()
{
    /* The paper's names and first values. */
    unsigned x = 123456789, y = 362436069, z = 521288629, w = 88675123, v = 5783321, d = 6615241;
    curandStateXORWOW_t begin = {};
    begin.d = d;
    const unsigned words[] = {x, y, z, w, v};
    std::copy(words, words + 5, begin.v);
    const int n = 1000;
    std::vector<unsigned> wanted;
    for (int i = 0; i < n; ++i) {
        const unsigned t = (x ^ (x >> 2));
        x = y;
        y = z;
        z = w;
        w = v;
        v = (v ^ (v << 4)) ^ (t ^ (t << 1));
        wanted.push_back((d += 362437) + v);
    }
    buffer<curandStateXORWOW_t> state(std::vector<curandStateXORWOW_t>(1, begin));
    buffer<unsigned> out(n);
    RUN(xorwow_from<<<1, 1>>>(state.data, out.data, n));
    expect_equal(out.read(), wanted, "xorwow");
}

/* ---- four at a time: what single calls give ---- */

__global__ void
draw_fours(int before, double *four, double *single)
{
    curandStatePhilox4_32_10_t a, b;
    curand_init(9, 8, before, &a);
    b = a;
    for (int i = 0; i < 8; ++i) {
        const uint4 bits = curand4(&a);
        const float4 uniform = curand_uniform4(&a), normal = curand_normal4(&a);
        const double2 doubles = curand_uniform2_double(&a);
        for (double of : {double(bits.x), double(bits.y), double(bits.z), double(bits.w), double(uniform.x),
                          double(uniform.y), double(uniform.z), double(uniform.w), double(normal.x), double(normal.y),
                          double(normal.z), double(normal.w), doubles.x, doubles.y})
            *four++ = of;
        for (int k = 0; k < 14; ++k)
            *single++ = k < 4    ? curand(&b)
                        : k < 8  ? curand_uniform(&b)
                        : k < 12 ? curand_normal(&b)
                                 : curand_uniform_double(&b);
    }
}

static void
test_fours()
{
    for (int before = 0; before < 9; ++before) {
        buffer<double> four(8 * 14), single(8 * 14);
        RUN(draw_fours<<<1, 1>>>(before, four.data, single.data));
        expect_equal(four.read(), single.read(), "four at a time");
    }
}

/* ---- distributions: each number follows from the bits at its place ---- */

enum { UNIFORM, UNIFORM_DOUBLE, NORMAL, NORMAL_DOUBLE, LOG_NORMAL, LOG_NORMAL_DOUBLE, KINDS };

template <class State>
__global__ void
fill(double *out, int each, int kind)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    State state;
    curand_init(4711, i, 0, &state);
    for (int k = 0; k < each; ++k)
        out[i * each + k] = kind == UNIFORM          ? curand_uniform(&state)
                            : kind == UNIFORM_DOUBLE ? curand_uniform_double(&state)
                            : kind == NORMAL         ? curand_normal(&state)
                            : kind == NORMAL_DOUBLE  ? curand_normal_double(&state)
                            : kind == LOG_NORMAL     ? std::log(curand_log_normal(&state, 0.5f, 0.25f))
                                                     : std::log(curand_log_normal_double(&state, 0.5, 0.25));
}

/* Number `k` of a kind, by its definition: the middle of an interval of (0, 1), and Box and Muller's of two. */
static double
defined(const std::vector<unsigned> &bits, int kind, int k)
{
    const auto uniform = [&](int at) {
        return kind % 2 == 0 ? std::ldexp(bits[at] + 0.5, -32)
                             : std::ldexp((bits[2 * at] ^ static_cast<u64>(bits[2 * at + 1]) << 21) + 0.5, -53);
    };
    if (kind <= UNIFORM_DOUBLE)
        return uniform(k);
    const double length = std::sqrt(-2 * std::log(uniform(k & ~1))), angle = 2 * M_PI * uniform(k | 1);
    const double normal = length * (k % 2 == 0 ? std::sin(angle) : std::cos(angle));
    return kind < LOG_NORMAL ? normal : 0.5 + 0.25 * normal;
}

template <class State>
static void
test_distributions()
{
    const int threads = 128, each = 200;
    for (int kind = 0; kind < KINDS; ++kind) {
        buffer<double> out(threads * each);
        RUN(fill<State><<<4, threads / 4>>>(out.data, each, kind));
        const std::vector<double> got = out.read();
        std::vector<double> wanted;
        for (int i = 0; i < threads; ++i) {
            const std::vector<unsigned> bits = drawn<State>(4711, i, 0, 2 * each);
            for (int k = 0; k < each; ++k)
                wanted.push_back(defined(bits, kind, k));
        }
        expect_close(got, wanted, kind % 2 == 0 ? 1e-5 : 1e-14, "as defined");
    }
}

/* The smallest and the largest word make numbers in (0, 1] whose logarithm is finite. */
static void
test_ends()
{
    CHECK(softgpu::uniform(0) > 0 && softgpu::uniform(~0u) == 1.0f, "float");
    CHECK(softgpu::uniform_double(0, 0) > 0 && softgpu::uniform_double(~0u, ~0u) <= 1.0, "double");
    for (unsigned x : {0u, 1u, ~0u}) {
        const float2 n = softgpu::normal2(x, x);
        CHECK(std::isfinite(n.x) && std::isfinite(n.y), "normal of %x", x);
    }
}

template <class State>
__global__ void
one_and_two(float *out, int skip)
{
    State one, two;
    curand_init(5, 0, 0, &one);
    two = one;
    out[0] = curand_normal(&one);
    if (skip)
        skipahead(10, &one);
    out[1] = curand_normal(&one);
    const float2 pair = curand_normal2(&two);
    out[2] = pair.x;
    out[3] = pair.y;
}

template <class State>
static void
test_pairs()
{
    buffer<float> out(4);
    RUN(one_and_two<State><<<1, 1>>>(out.data, 0));
    std::vector<float> got = out.read();
    CHECK(got[0] == got[2] && got[1] == got[3], "two single ones are a pair");
    RUN(one_and_two<State><<<1, 1>>>(out.data, 1));
    got = out.read();
    CHECK(got[0] == got[2] && got[1] != got[3], "after a jump, nothing is left of the place before");
}

int
main()
{
    test_known_answers();
    test_marsaglia();
    test_jumps<curandStatePhilox4_32_10_t>(66);
    test_jumps<curandState>(67);
    test_fours();
    test_ends();
    test_pairs<curandState_t>();
    test_pairs<curandStatePhilox4_32_10_t>();
    test_distributions<curandStateXORWOW_t>();
    test_distributions<curandStatePhilox4_32_10_t>();
    return 0;
}
