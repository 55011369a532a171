/*
 * rounding.cu - arithmetic and conversions in the four named rounding modes, bit by bit. The model computes to nearest
 * and takes, by the sign of the exact remainder, the neighbour: no rounding mode of the CPU is changed for it.
 */
#include "check.h"

#include <cstring>

/* What a remainder says of the result to nearest. */
enum mode { NEAREST, DOWN, UP, TO_ZERO, MODES };

template <class T>
static T
rounded(T nearest, double remainder, mode how)
{
    const T infinity = std::numeric_limits<T>::infinity();
    if (remainder == 0 || how == NEAREST)
        return nearest;
    const bool down = how == DOWN || (how == TO_ZERO && (nearest > 0 || (nearest == 0 && remainder > 0)));
    if (down)
        return remainder < 0 ? std::nextafter(nearest, -infinity) : nearest;
    return remainder > 0 ? std::nextafter(nearest, infinity) : nearest;
}

/* a + b - sum, exactly: Knuth's TwoSum. Volatile, so that no compiler joins a product and a sum. */
static double
sum_error(double a, double b, double sum)
{
    const volatile double b_part = sum - a, a_part = sum - b_part;
    const volatile double b_error = b - b_part, a_error = a - a_part;
    return a_error + b_error;
}

/* The sign of a * b + c - nearest: a product is two numbers, its sum with c three, which are added up exactly. */
static double
fma_remainder(double a, double b, double c, double nearest)
{
    const volatile double product = a * b, low = std::fma(a, b, -product);
    const volatile double sum = product + c, middle = sum_error(product, c, sum);
    const volatile double high = sum - nearest;
    const volatile double first = high + middle, first_error = sum_error(high, middle, first);
    const volatile double second = first + low, second_error = sum_error(first, low, second);
    return second != 0 ? second : first_error + second_error;
}

template <class T> struct numbers {
    T a, b, c;
};

/* What is computed of numbers<T>, by its number: to nearest, and its remainder. */
enum { ADD, SUBTRACT, MULTIPLY, DIVIDE, RECIPROCAL, ROOT, FMA, OPERATIONS };

template <class T>
static T
model(int operation, numbers<T> x, mode how)
{
    const double a = x.a, b = x.b, c = x.c;
    T nearest = 0;
    switch (operation) {
    case ADD:
        nearest = static_cast<T>(x.a + x.b);
        return rounded(nearest, fma_remainder(1, a, b, nearest), how);
    case SUBTRACT:
        nearest = static_cast<T>(x.a - x.b);
        return rounded(nearest, fma_remainder(-1, b, a, nearest), how);
    case MULTIPLY:
        nearest = static_cast<T>(x.a * x.b);
        return rounded(nearest, fma_remainder(a, b, 0, nearest), how);
    case DIVIDE:
        nearest = static_cast<T>(x.a / x.b);
        return rounded(nearest, std::fma(-static_cast<double>(nearest), b, a) / b, how);
    case RECIPROCAL:
        nearest = static_cast<T>(1 / x.a);
        return rounded(nearest, std::fma(-static_cast<double>(nearest), a, 1.0) / a, how);
    case ROOT:
        nearest = static_cast<T>(std::sqrt(std::fabs(x.a)));
        return rounded(nearest, std::fma(-static_cast<double>(nearest), nearest, std::fabs(a)), how);
    default:
        nearest = std::fma(x.a, x.b, x.c);
        return rounded(nearest, fma_remainder(a, b, c, nearest), how);
    }
}

#define FOUR(out, name, ...)               \
    out[NEAREST] = name##_rn(__VA_ARGS__); \
    out[DOWN] = name##_rd(__VA_ARGS__);    \
    out[UP] = name##_ru(__VA_ARGS__);      \
    out[TO_ZERO] = name##_rz(__VA_ARGS__);

__device__ void
compute(numbers<float> x, float (*out)[MODES]){
    FOUR(out[ADD], __fadd, x.a, x.b) FOUR(out[SUBTRACT], __fsub, x.a, x.b) FOUR(out[MULTIPLY], __fmul, x.a, x.b)
        FOUR(out[DIVIDE], __fdiv, x.a, x.b) FOUR(out[RECIPROCAL], __frcp, x.a) FOUR(out[ROOT], __fsqrt, fabsf(x.a))
            FOUR(out[FMA], __fmaf, x.a, x.b, x.c)}

__device__ void compute(numbers<double> x, double (*out)[MODES])
{
    FOUR(out[ADD], __dadd, x.a, x.b)
    FOUR(out[SUBTRACT], __dsub, x.a, x.b)
    FOUR(out[MULTIPLY], __dmul, x.a, x.b)
    FOUR(out[DIVIDE], __ddiv, x.a, x.b)
    FOUR(out[RECIPROCAL], __drcp, x.a)
    FOUR(out[ROOT], __dsqrt, fabs(x.a))
    FOUR(out[FMA], __fma, x.a, x.b, x.c)
}

template <class T>
__global__ void
arithmetic(const numbers<T> *x, T (*out)[OPERATIONS][MODES], int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        compute(x[i], out[i]);
}

/* Exponents near each other, so that remainders are no less than the least number; sums that cancel, and ties. */
template <class T>
static T
draw(int spread)
{
    const int digits = std::numeric_limits<T>::digits;
    const unsigned long long bits =
        (1ull << 63 | static_cast<unsigned long long>(random_source()()) << 31) ^ random_source()();
    const T fraction = std::ldexp(static_cast<T>(bits >> (64 - digits)), -digits);
    T value = std::ldexp(fraction, static_cast<int>(random_source()() % (2 * spread + 1)) - spread);
    if (random_source()() % 4 == 0)
        value = static_cast<T>(static_cast<int>(random_source()() % 64) + 1) / 8;
    return random_source()() % 2 == 0 ? value : -value;
}

template <class T>
static void
compare(T got, T wanted, const char *what, int operation, int how)
{
    CHECK(std::memcmp(&got, &wanted, sizeof(T)) == 0, "%s: operation %d, mode %d: %a, not %a", what, operation, how,
          static_cast<double>(got), static_cast<double>(wanted));
}

template <class T>
static void
test_arithmetic(const char *what, int spread)
{
    enum { COUNT = 20000 };
    std::vector<numbers<T>> x(COUNT);
    for (numbers<T> &each : x) {
        each = {draw<T>(spread), draw<T>(spread), draw<T>(spread)};
        if (random_source()() % 8 == 0)
            each.c = -each.a * each.b; /* the remainder of the product, alone */
    }
    buffer<numbers<T>> dx(x);
    buffer<T> out(static_cast<size_t>(COUNT) * OPERATIONS * MODES);
    RUN(arithmetic<<<COUNT / 100, 100>>>(dx.data, reinterpret_cast<T(*)[OPERATIONS][MODES]>(out.data), COUNT));
    const std::vector<T> got = out.read();
    for (size_t i = 0; i < got.size(); ++i) {
        const int operation = static_cast<int>(i / MODES % OPERATIONS), how = static_cast<int>(i % MODES);
        const T wanted = model(operation, x[i / MODES / OPERATIONS], static_cast<mode>(how));
        if (wanted != 0 || got[i] != 0) /* the sign of a zero is below */
            compare(got[i], wanted, what, operation, how);
    }
}

enum { INT, UINT, LL, ULL, DOUBLE, LL_DOUBLE, ULL_DOUBLE, CONVERSIONS };

__global__ void
conversions(const unsigned long long *x, double (*out)[CONVERSIONS][MODES])
{
    const unsigned long long n = x[threadIdx.x];
    double(*mine)[MODES] = out[threadIdx.x];
    FOUR(mine[INT], __int2float, static_cast<int>(n))
    FOUR(mine[UINT], __uint2float, static_cast<unsigned>(n))
    FOUR(mine[LL], __ll2float, static_cast<long long>(n))
    FOUR(mine[ULL], __ull2float, n)
    FOUR(mine[DOUBLE], __double2float, static_cast<double>(static_cast<long long>(n)) * 0x1p-40)
    FOUR(mine[LL_DOUBLE], __ll2double, static_cast<long long>(n))
    FOUR(mine[ULL_DOUBLE], __ull2double, n)
}

/* Integers of 64 bits and their neighbours: the remainder is an integer of 128. */
template <class T, class Integer>
static T
convert(Integer n, mode how)
{
    const T nearest = static_cast<T>(n);
    return rounded(nearest, static_cast<double>(static_cast<__int128>(n) - static_cast<__int128>(nearest)), how);
}

static void
test_conversions()
{
    enum { COUNT = 1000 };
    std::vector<unsigned long long> x(COUNT, 0);
    for (size_t i = 0; i + 6 < COUNT; ++i)
        x[i] = (static_cast<unsigned long long>(random_source()()) << 32 | random_source()()) >> random_source()() % 64;
    x[COUNT - 1] = ~0ull; /* and what rounds up to 2^32, 2^63 */
    x[COUNT - 2] = 0x7fffffffffffffffull;
    x[COUNT - 3] = 0xffffffffull;
    buffer<unsigned long long> dx(x);
    buffer<double> out(static_cast<size_t>(COUNT) * CONVERSIONS * MODES);
    RUN(conversions<<<1, COUNT>>>(dx.data, reinterpret_cast<double(*)[CONVERSIONS][MODES]>(out.data)));
    const std::vector<double> got = out.read();
    for (int i = 0; i < COUNT; ++i) {
        for (int m = 0; m < MODES; ++m) {
            const mode how = static_cast<mode>(m);
            const long long n = static_cast<long long>(x[i]);
            const double d = static_cast<double>(n) * 0x1p-40;
            const float nearest = static_cast<float>(d);
            const double wanted[] = {convert<float>(static_cast<int>(n), how),
                                     convert<float>(static_cast<unsigned>(n), how),
                                     convert<float>(n, how),
                                     convert<float>(x[i], how),
                                     rounded(nearest, d - nearest, how),
                                     convert<double>(n, how),
                                     convert<double>(x[i], how)};
            for (int c = 0; c < CONVERSIONS; ++c)
                compare(got[(static_cast<size_t>(i) * CONVERSIONS + c) * MODES + m], wanted[c], "conversion", c, m);
        }
    }
}

/* What IEEE 754 says of the ends: sums that cancel, overflow, what is less than the least number. */
__global__ void
ends(float *out, float one, float most, float least)
{
    out[0] = __fadd_rd(one, -one);
    out[1] = __fadd_ru(one, -one);
    out[2] = __fmul_rz(most, most);
    out[3] = __fmul_ru(most, most);
    out[4] = __fmul_ru(-most, most);
    out[5] = __fmul_ru(least, least);
    out[6] = __fmul_rd(least, -least);
    out[7] = __fmaf_rd(one, -least, most);
    out[8] = __fdiv_rn(one, 0.0f);
    out[9] = __fmul_rn(most, most);
}

int
main()
{
    test_arithmetic<float>("float", 20);
    test_arithmetic<double>("double", 30);
    test_conversions();
    const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
    const float infinity = std::numeric_limits<float>::infinity();
    const float wanted[] = {-0.0f,    0.0f,    most, infinity, -most, least, -least, std::nextafter(most, 0.0f),
                            infinity, infinity};
    buffer<float> out(10);
    RUN(ends<<<1, 1>>>(out.data, 1.0f, most, least));
    for (int i = 0; i < 10; ++i)
        compare(out.read()[i], wanted[i], "ends", i, 0);
    return 0;
}
