/*
 * math_functions.cu - CUDA's functions beyond <cmath>, against definitions written out bit by bit or in double
 * precision.
 */
#include "check.h"

#include <climits>
#include <cstring>

__global__ void
bits(const unsigned *x, unsigned long long *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const unsigned a = x[i], b = x[(i + 1) % n];
    const unsigned long long wide = (unsigned long long)a << 32 | b;
    unsigned long long *o = out + 16 * i;
    o[0] = __popc(a);
    o[1] = __popcll(wide);
    o[2] = __clz(a);
    o[3] = __clzll(wide);
    o[4] = __ffs(a);
    o[5] = __ffsll(wide);
    o[6] = __brev(a);
    o[7] = __brevll(wide);
    o[8] = __umulhi(a, b);
    o[9] = (unsigned)__mulhi((int)a, (int)b);
    o[10] = __byte_perm(a, b, a >> 7 & 0xffff);
    o[11] = __funnelshift_l(a, b, a & 63);
    o[12] = __funnelshift_r(a, b, b & 63);
    o[13] = __umul64hi(wide, wide ^ a);
    o[14] = (unsigned)__sad((int)a, (int)b, 3u);
    o[15] = __umul24(a, b);
}

static void
test_bits()
{
    const int n = 500;
    std::vector<unsigned> x(n);
    for (int i = 0; i < n; ++i)
        x[i] = i % 5 == 0 ? 0 : i % 7 == 0 ? 1u << (i % 32) : static_cast<unsigned>(random_source()());
    buffer<unsigned> dx(x);
    buffer<unsigned long long> out(16 * n);
    RUN(bits<<<4, 128>>>(dx.data, out.data, n));
    const std::vector<unsigned long long> got = out.read();
    for (int i = 0; i < n; ++i) {
        const unsigned a = x[i], b = x[(i + 1) % n];
        const unsigned long long wide = static_cast<unsigned long long>(a) << 32 | b;
        unsigned long long w[16] = {0, 0, 32, 64, 0, 0};
        for (int k = 0; k < 64; ++k) {
            const bool in_a = k < 32 && (a >> k & 1), in_wide = wide >> k & 1;
            w[0] += in_a;
            w[1] += in_wide;
            w[2] = in_a ? 31 - k : w[2];
            w[3] = in_wide ? 63 - k : w[3];
            w[4] = w[4] == 0 && in_a ? k + 1 : w[4];
            w[5] = w[5] == 0 && in_wide ? k + 1 : w[5];
            w[6] |= in_a ? 1ull << (31 - k) : 0;
            w[7] |= in_wide ? 1ull << (63 - k) : 0;
        }
        w[8] = static_cast<unsigned long long>(a) * b >> 32;
        w[9] = static_cast<unsigned>(static_cast<long long>(static_cast<int>(a)) * static_cast<int>(b) >> 32);
        for (int k = 0; k < 4; ++k) {
            const unsigned pick = (a >> 7 & 0xffff) >> 4 * k & 0xf,
                           byte = ((pick & 4) ? b : a) >> 8 * (pick & 3) & 0xff;
            w[10] |= static_cast<unsigned long long>(pick & 8 ? (byte >> 7 ? 0xff : 0) : byte) << 8 * k;
        }
        const unsigned long long both = static_cast<unsigned long long>(b) << 32 | a;
        w[11] = static_cast<unsigned>(both << (a & 31) >> 32);
        w[12] = static_cast<unsigned>(both >> (b & 31));
        w[13] = static_cast<unsigned long long>(static_cast<unsigned __int128>(wide) * (wide ^ a) >> 64);
        const long long sa = static_cast<int>(a), sb = static_cast<int>(b);
        w[14] = static_cast<unsigned>((sa > sb ? sa - sb : sb - sa) + 3);
        w[15] = static_cast<unsigned>((a & 0xffffff) * (b & 0xffffff));
        for (int k = 0; k < 16; ++k)
            CHECK(got[16 * i + k] == w[k], "bit function %d of %#x and %#x is %#llx, not %#llx", k, a, b,
                  got[16 * i + k], w[k]);
    }
}

__global__ void
functions(const float *x, double *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float a = x[i], b = x[(i + 1) % n];
    double *o = out + 14 * i;
    o[0] = rsqrtf(a * a + 1.0f);
    o[1] = __expf(a);
    o[2] = __logf(a * a + 0.5f);
    o[3] = __powf(a * a + 0.1f, b);
    o[4] = __fdividef(a, b * b + 1.0f);
    o[5] = __sinf(a) + __cosf(b);
    o[6] = fmaxf(a, b) - fminf(a, b) + fmax((double)a, (double)b) - max(a, b);
    o[7] = __saturatef(a);
    o[8] = __fmaf_rn(a, b, 1.0f);
    o[9] = __frcp_rn(a * a + 1.0f) + __fsqrt_rn(b * b);
    o[10] = erff(a) + normcdff(b) + rcbrtf(a * a + 1.0f);
    o[11] = tanhf(a) + log1pf(b * b) + exp2f(a) + cbrtf(b);
    o[12] = rsqrt((double)a * a + 2.0) + rhypot((double)a, 1.0);
    float s, c;
    sincosf(a, &s, &c);
    o[13] = s * s + c * c;
}

static void
test_functions()
{
    const int n = 1000;
    const std::vector<float> x = random_vector<float>(n, -3, 3);
    buffer<float> dx(x);
    buffer<double> out(14 * n);
    RUN(functions<<<8, 128>>>(dx.data, out.data, n));
    std::vector<double> wanted;
    for (int i = 0; i < n; ++i) {
        const double a = x[i], b = x[(i + 1) % n];
        const double w[14] = {1 / std::sqrt(a * a + 1),
                              std::exp(a),
                              std::log(a * a + 0.5),
                              std::pow(a * a + 0.1, b),
                              a / (b * b + 1),
                              std::sin(a) + std::cos(b),
                              std::fabs(a - b),
                              a < 0   ? 0
                              : a > 1 ? 1
                                      : a,
                              a * b + 1,
                              1 / (a * a + 1) + std::fabs(b),
                              std::erf(a) + 0.5 * std::erfc(-b / std::sqrt(2.0)) + 1 / std::cbrt(a * a + 1),
                              std::tanh(a) + std::log1p(b * b) + std::exp2(a) + std::cbrt(b),
                              1 / std::sqrt(a * a + 2) + 1 / std::hypot(a, 1.0),
                              1};
        wanted.insert(wanted.end(), w, w + 14);
    }
    expect_close(out.read(), wanted, 3e-6, "functions");
}

__global__ void
conversions(const double *x, long long *out, int n)
{
    const int i = threadIdx.x;
    if (i >= n)
        return;
    const float f = static_cast<float>(x[i]);
    long long *o = out + 10 * i;
    o[0] = __float2int_rn(f);
    o[1] = __float2int_rd(f);
    o[2] = __float2int_ru(f);
    o[3] = __float2int_rz(f);
    o[4] = __float2uint_rn(f);
    o[5] = __double2ll_rn(x[i]);
    o[6] = __double2int_rz(x[i]);
    o[7] = __float_as_int(f);
    o[8] = __float_as_uint(__uint_as_float(__float_as_uint(f)));
    o[9] = __double_as_longlong(__hiloint2double(__double2hiint(x[i]), __double2loint(x[i])));
}

static long long
clamp(double value, double low, double high, long long low_int, long long high_int)
{
    return std::isnan(value) ? 0 : value <= low ? low_int : value >= high ? high_int : static_cast<long long>(value);
}

static void
test_conversions()
{
    const std::vector<double> x = {0,  0.5, 1.5,  2.5,  -0.5,  -1.5, -2.7,     3.2,      1e6 + 0.25,
                                   -7, 3e9, -3e9, 1e20, -1e20, NAN,  INFINITY, -INFINITY};
    const int n = static_cast<int>(x.size());
    buffer<double> dx(x);
    buffer<long long> out(10 * n);
    RUN(conversions<<<1, 32>>>(dx.data, out.data, n));
    const std::vector<long long> got = out.read();
    const auto to_int = [](double v) { return clamp(v, INT_MIN, INT_MAX, INT_MIN, INT_MAX); };
    for (int i = 0; i < n; ++i) {
        const double f = static_cast<float>(x[i]), d = x[i];
        const long long *g = &got[10 * i];
        CHECK(g[0] == to_int(std::nearbyint(f)) && g[1] == to_int(std::floor(f)) && g[2] == to_int(std::ceil(f)) &&
                  g[3] == to_int(std::trunc(f)),
              "float to int of %g: %lld %lld %lld %lld", f, g[0], g[1], g[2], g[3]);
        CHECK(g[4] == clamp(std::nearbyint(f), 0, UINT_MAX, 0, UINT_MAX), "float to unsigned of %g is %lld", f, g[4]);
        CHECK(g[5] == clamp(std::nearbyint(d), -9.3e18, 9.223372036854775807e18, LLONG_MIN, LLONG_MAX),
              "double to long long of %g is %lld", d, g[5]);
        CHECK(g[6] == to_int(std::trunc(d)), "double to int of %g is %lld", d, g[6]);
        CHECK(static_cast<unsigned>(g[7]) == g[8], "bits of a float");
        if (!std::isnan(d)) {
            long long bits;
            std::memcpy(&bits, &d, sizeof(bits));
            CHECK(g[9] == bits, "halves of a double");
        }
    }
}

/* min and max of mixed types, as CUDA has them in the global namespace. */
__global__ void
extremes(int a, unsigned b, long long c, float d, double e, double *out)
{
    out[0] = min(a, 3) + max(a, 3);
    out[1] = min(b, 7u) + max(b, 7u);
    out[2] = static_cast<double>(max(c, 1ll << 40));
    out[3] = max(d, e);
    out[4] = min(d, 0.25f);
    out[5] = fmaxf(NAN, d);
    out[6] = max(a, b);
    out[7] = abs(a) + fabsf(d) + floorf(d) + ceil(e);
    using namespace std;
    out[8] = max(1, 2) + min(d, d + 1);
}

int
main()
{
    test_bits();
    test_functions();
    test_conversions();
    buffer<double> out(9);
    RUN(extremes<<<1, 1>>>(-2, 5u, 12, 1.5f, -0.5, out.data));
    expect_equal(out.read(), {1, 12, 1099511627776.0, 1.5, 0.25, 1.5, 4294967294.0, 2 + 1.5 + 1 + 0, 3.5},
                 "min and max");
    return 0;
}
