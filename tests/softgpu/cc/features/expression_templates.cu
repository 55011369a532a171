// Expressions as types, as matrix libraries have them: built on the host or in a kernel, evaluated in one loop, with
// flags and casts in template arguments.
enum { READS_ONCE = 1, ALIGNED = 2 };
template <class E, int Flags> struct expression {
    __host__ __device__ const E &self() const
    {
        return static_cast<const E &>(*this);
    }
};
template <class E> struct flags_of;
template <class T, int N, int Flags = int(READS_ONCE) | int(sizeof(T) * N % 16 == 0 ? ALIGNED : 0)>
struct vec : expression<vec<T, N, Flags>, Flags> {
    T values[N];
    __host__ __device__ T operator[](int i) const
    {
        return values[i];
    }
    template <class E, int F> __host__ __device__ vec &operator=(const expression<E, F> &e)
    {
        for (int i = 0; i < N; ++i)
            values[i] = T(e.self()[i]);
        return *this;
    }
};
template <class T, int N, int F> struct flags_of<vec<T, N, F>> {
    enum { value = F };
};
template <class A, class B, class Op, int Flags> struct binary : expression<binary<A, B, Op, Flags>, Flags> {
    A a;
    B b;
    __host__ __device__ binary(const A &left, const B &right) : a(left), b(right)
    {
    }
    __host__ __device__ auto operator[](int i) const
    {
        return Op()(a[i], b[i]);
    }
};
template <class A, class B, class Op, int F> struct flags_of<binary<A, B, Op, F>> {
    enum { value = F };
};
struct plus {
    template <class T> __host__ __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};
struct times {
    template <class T> __host__ __device__ T operator()(T a, T b) const
    {
        return a * b;
    }
};
template <class A, int FA, class B, int FB>
__host__ __device__ auto
operator+(const expression<A, FA> &a, const expression<B, FB> &b)
{
    return binary<A, B, plus, int(flags_of<A>::value) & int(flags_of<B>::value)>(a.self(), b.self());
}
template <class A, int FA, class B, int FB>
__host__ __device__ auto
operator*(const expression<A, FA> &a, const expression<B, FB> &b)
{
    return binary<A, B, times, (int(flags_of<A>::value) & ~int(ALIGNED)) | int(FB < 0)>(a.self(), b.self());
}
template <class E>
__global__ void
assign(vec<float, 4> *out, E e)
{
    out[threadIdx.x] = e;
}
__global__ void
inside(const vec<float, 4> *x, vec<int, 4> *out)
{
    vec<float, 4> y;
    y = x[0] * x[1] + x[1];
    out[0] = y + y * x[0];
}

int
main()
{
    vec<float, 4> *x = managed(3 * sizeof(*x));
    vec<int, 4> *y = managed(sizeof(*y));
    for (int i = 0; i < 8; ++i)
        x[i / 4].values[i % 4] = static_cast<float>(i) + 0.25f;
    const vec<float, 4> a = x[0], b = x[1];
    assign<<<1, 1>>>(x + 2, a + b * a + b);
    inside<<<1, 1>>>(x, y);
    cudaDeviceSynchronize();
    static_assert(flags_of<decltype(a + b)>::value == (READS_ONCE | ALIGNED) &&
                      int(flags_of<decltype(a * b)>::value) == int(READS_ONCE),
                  "flags");
    for (int i = 0; i < 4; ++i) {
        const float inner = a[i] * b[i] + b[i];
        if (x[2][i] != a[i] + b[i] * a[i] + b[i] || y[0][i] != int(inner + inner * a[i]))
            return 1;
    }
    return 0;
}
