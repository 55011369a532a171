// Pointers to members of data and functions as arguments of kernels and templates.
struct Particle {
    float x, v;
    int hits;
    __host__ __device__ void move(float dt)
    {
        x += v * dt;
    }
    __host__ __device__ void bounce(float)
    {
        v = -v;
        ++hits;
    }
};
__global__ void
set_member(Particle *p, float Particle::*member, float value)
{
    p[threadIdx.x].*member = value * (threadIdx.x + 1);
}
template <void (Particle::*STEP)(float)>
__global__ void
step(Particle *p, float dt)
{
    (p[threadIdx.x].*STEP)(dt);
}
template <typename Member, typename Value>
__global__ void
extract(const Particle *p, Member member, Value *out)
{
    out[threadIdx.x] = p[threadIdx.x].*member;
}

int
main()
{
    Particle *p = managed(4 * sizeof(*p));
    float *out = managed(16);
    int *hits = managed(16);
    cudaMemset(p, 0, 4 * sizeof(*p));
    set_member<<<1, 4>>>(p, &Particle::x, 10);
    set_member<<<1, 4>>>(p, &Particle::v, 2);
    step<&Particle::move><<<1, 4>>>(p, 0.5f);
    step<&Particle::bounce><<<1, 4>>>(p, 0);
    step<&Particle::move><<<1, 4>>>(p, 1);
    extract<<<1, 4>>>(p, &Particle::x, out);
    extract<<<1, 4>>>(p, &Particle::hits, hits);
    cudaDeviceSynchronize();
    return out[0] == 9 && out[3] == 36 && hits[2] == 1 ? 0 : 1;
}
