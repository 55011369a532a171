// Functors by inheritance (CRTP), virtual functions of objects made on the device.
template <class Derived> struct Base {
    __host__ __device__ float operator()(float x) const
    {
        return static_cast<const Derived *>(this)->apply(x);
    }
};
struct Gelu : Base<Gelu> {
    __host__ __device__ float apply(float x) const
    {
        return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    }
};
struct Shape {
    __device__ virtual ~Shape()
    {
    }
    __device__ virtual float area() const = 0;
};
struct Square final : Shape {
    float a;
    __device__ explicit Square(float side) : a(side)
    {
    }
    __device__ float area() const override
    {
        return a * a;
    }
};
template <class F>
__global__ void
apply(float *x, F f)
{
    x[threadIdx.x] = f(x[threadIdx.x]);
    if (threadIdx.x == 0) {
        Shape *shape = new Square(3);
        x[4] = shape->area();
        delete shape;
    }
}

int
main()
{
    float *x = managed(32);
    x[0] = 0, x[1] = 10;
    apply<<<1, 2>>>(x, Gelu());
    cudaDeviceSynchronize();
    return x[0] == 0 && x[1] == 10 && x[4] == 9 ? 0 : 1;
}
