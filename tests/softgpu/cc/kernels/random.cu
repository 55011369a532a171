/*
 * random.cu - <curand_kernel.h>: Philox gives the numbers of its authors' known-answer test, XORWOW those of
 * Marsaglia's recurrence; jumps arrive where single steps do; uniform numbers are in (0, 1], normal ones normal; all
 * are the same from run to run and in every launch shape.
 */
#include "check.h"

#include <curand_kernel.h>

#include <algorithm>
#include <set>

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

/* ---- four at a time ---- */

__global__ void
draw_fours(int before, uint4 *bits, float4 *uniform, double2 *doubles, float4 *normal)
{
    curandStatePhilox4_32_10_t begin;
    curand_init(9, 8, before, &begin);
    curandStatePhilox4_32_10_t state = begin;
    for (int i = 0; i < 8; ++i)
        bits[i] = curand4(&state);
    state = begin;
    uniform[0] = curand_uniform4(&state);
    doubles[0] = curand_uniform2_double(&state);
    normal[0] = curand_normal4(&state);
}

static void
test_fours()
{
    for (int before = 0; before < 9; ++before) {
        buffer<uint4> bits(8);
        buffer<float4> uniform(1), normal(1);
        buffer<double2> doubles(1);
        RUN(draw_fours<<<1, 1>>>(before, bits.data, uniform.data, doubles.data, normal.data));
        const std::vector<unsigned> wanted = drawn<curandStatePhilox4_32_10_t>(9, 8, before, 32);
        const std::vector<uint4> got = bits.read();
        for (int i = 0; i < 8; ++i)
            CHECK(got[i].x == wanted[4 * i] && got[i].y == wanted[4 * i + 1] && got[i].z == wanted[4 * i + 2] &&
                      got[i].w == wanted[4 * i + 3],
                  "curand4 number %d from %d", i, before);
        const float4 u = uniform.read()[0];
        CHECK(u.x == wanted[0] * 2.3283064365386963e-10f + 1.1641532182693481e-10f &&
                  u.w == wanted[3] * 2.3283064365386963e-10f + 1.1641532182693481e-10f,
              "uniform4");
        const double2 two = doubles.read()[0];
        const double scale = std::ldexp(1.0, -53);
        CHECK(two.y == (wanted[6] ^ static_cast<u64>(wanted[7]) << 21) * scale + scale / 2, "uniform2_double");
        const float4 n = normal.read()[0];
        const double length = std::sqrt(-2 * std::log(wanted[10] * 2.3283064365386963e-10 + 1.1641532182693481e-10));
        const double angle = 6.28318530717958648 * (wanted[11] * 2.3283064365386963e-10 + 1.1641532182693481e-10);
        CHECK(std::fabs(n.z - length * std::sin(angle)) < 1e-5 && std::fabs(n.w - length * std::cos(angle)) < 1e-5,
              "normal4: %g %g", n.z, n.w);
    }
}

/* ---- distributions ---- */

enum { UNIFORM, UNIFORM_DOUBLE, NORMAL, NORMAL_DOUBLE, LOG_NORMAL, LOG_NORMAL_DOUBLE, KINDS };

template <class State>
__global__ void
setup(State *states, u64 seed)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(seed, i, 0, &states[i]);
}

template <class State>
__global__ void
fill(State *states, double *out, int each, int kind)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    State state = states[i];
    for (int k = 0; k < each; ++k) {
        double &to = out[i * each + k];
        switch (kind) {
        case UNIFORM:
            to = curand_uniform(&state);
            break;
        case UNIFORM_DOUBLE:
            to = curand_uniform_double(&state);
            break;
        case NORMAL:
            to = curand_normal(&state);
            break;
        case NORMAL_DOUBLE:
            to = curand_normal_double(&state);
            break;
        case LOG_NORMAL:
            to = std::log(curand_log_normal(&state, 0.5f, 0.25f));
            break;
        default:
            to = std::log(curand_log_normal_double(&state, 0.5, 0.25));
            break;
        }
    }
    states[i] = state;
}

struct moments {
    double mean, variance, skewness, kurtosis;
};

static moments
moments_of(const std::vector<double> &x)
{
    moments m = {};
    for (double v : x)
        m.mean += v / x.size();
    double third = 0, fourth = 0;
    for (double v : x) {
        const double c = v - m.mean;
        m.variance += c * c / x.size();
        third += c * c * c / x.size();
        fourth += c * c * c * c / x.size();
    }
    m.skewness = third / std::pow(m.variance, 1.5);
    m.kurtosis = fourth / (m.variance * m.variance);
    return m;
}

/* Six standard errors each, so that a right generator passes whatever the seed. */
static void
expect_moments(const std::vector<double> &x, moments wanted, const char *what)
{
    const moments got = moments_of(x);
    const double root = std::sqrt(static_cast<double>(x.size()));
    CHECK(std::fabs(got.mean - wanted.mean) < 6 * std::sqrt(wanted.variance) / root, "%s: mean %g", what, got.mean);
    CHECK(std::fabs(got.variance / wanted.variance - 1) < 6 * std::sqrt(wanted.kurtosis - 1) / root, "%s: variance %g",
          what, got.variance);
    CHECK(std::fabs(got.skewness) < 6 * std::sqrt(6.0) / root, "%s: skewness %g", what, got.skewness);
    CHECK(std::fabs(got.kurtosis - wanted.kurtosis) < 6 * std::sqrt(24.0) / root, "%s: kurtosis %g", what,
          got.kurtosis);
}

/* 256 cells, filled evenly: chi squared within six of its standard deviations. */
static void
expect_even(const std::vector<double> &x, const char *what)
{
    const int cells = 256;
    std::vector<int> count(cells);
    for (double v : x)
        ++count[std::min(cells - 1, static_cast<int>(v * cells))];
    double chi = 0;
    const double mean = static_cast<double>(x.size()) / cells;
    for (int c : count)
        chi += (c - mean) * (c - mean) / mean;
    CHECK(std::fabs(chi - (cells - 1)) < 6 * std::sqrt(2.0 * (cells - 1)), "%s: chi squared %g", what, chi);
}

template <class State>
static std::vector<double>
filled(int blocks, int threads, int each, int kind)
{
    buffer<State> states(blocks * threads);
    buffer<double> out(static_cast<size_t>(blocks) * threads * each);
    setup<<<blocks, threads>>>(states.data, 4711);
    RUN(fill<<<blocks, threads>>>(states.data, out.data, each, kind));
    return out.read();
}

template <class State>
static void
test_distributions(const char *generator)
{
    for (int kind = 0; kind < KINDS; ++kind) {
        const std::vector<double> x = filled<State>(8, 128, 200, kind);
        expect_equal(filled<State>(16, 64, 200, kind), x, "another launch shape");
        if (kind == UNIFORM || kind == UNIFORM_DOUBLE) {
            CHECK(*std::min_element(x.begin(), x.end()) > 0 && *std::max_element(x.begin(), x.end()) <= 1, "(0, 1]");
            expect_moments(x, {0.5, 1.0 / 12, 0, 1.8}, generator);
            expect_even(x, generator);
        } else if (kind == NORMAL || kind == NORMAL_DOUBLE) {
            expect_moments(x, {0, 1, 0, 3}, generator);
        } else {
            expect_moments(x, {0.5, 0.0625, 0, 3}, generator);
        }
        if (kind != UNIFORM && kind != LOG_NORMAL)
            CHECK(std::set<double>(x.begin(), x.end()).size() > x.size() * 0.9, "threads have numbers of their own");
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
    test_distributions<curandStateXORWOW_t>("XORWOW");
    test_distributions<curandStatePhilox4_32_10_t>("Philox");
    return 0;
}
