// feature.h - stands in front of each source of this folder (features.sh). FEATURE(name) { ... } is a test, which
// EXPECT fails; `float *x = managed(256);` is so many bytes, zeros, that host and device reach; gives() runs one device
// thread.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <vector>

inline int failures;

#define EXPECT(...) \
    (void)((__VA_ARGS__) || (failures += std::printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #__VA_ARGS__)))

inline bool
done()
{
    return cudaDeviceSynchronize() == cudaSuccess;
}

struct managed {
    void *memory = nullptr;

    explicit managed(size_t bytes)
    {
        if (cudaMallocManaged(&memory, bytes) != cudaSuccess || cudaMemset(memory, 0, bytes) != cudaSuccess || !done())
            std::exit(99);
    }
    template <typename T> operator T *() const
    {
        return static_cast<T *>(memory);
    }
};

struct feature {
    void (*test)();
    feature *next;
    inline static feature *first = nullptr;

    explicit feature(void (*function)()) : test(function), next(first)
    {
        first = this;
    }
};

#define FEATURE(name)                  \
    static void name();                \
    static feature name##_entry(name); \
    static void name()

template <class T, class F>
__global__ void
one_thread(T *out, F f)
{
    f(out);
}

// The numbers that one thread writes, by a device lambda, are the wanted ones, or this near.
template <class T, class F>
void
gives(std::initializer_list<double> wanted, double within, F f)
{
    T *out = managed(wanted.size() * sizeof(T));
    one_thread<<<1, 1>>>(out, f);
    EXPECT(done());
    for (size_t i = 0; i < wanted.size(); ++i) {
        const double got = static_cast<double>(out[i]);
        if (!(std::fabs(got - wanted.begin()[i]) <= within))
            failures += std::printf("number %zu is %.9g, not %.9g\n", i, got, wanted.begin()[i]);
    }
}

int
main()
{
    for (const feature *one = feature::first; one != nullptr; one = one->next)
        one->test();
    return failures != 0;
}
