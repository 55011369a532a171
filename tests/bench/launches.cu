/*
 * launches.cu - what a launch costs through the whole path (runtime, driver, stream), and what a process costs that has
 * nothing to do. Run by bench/softgpu; prints two numbers: launches per second, and the share of a core while idle.
 */
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <time.h>
#include <vector>

__global__ void
nothing()
{
}

static double
seconds_of(clockid_t clock)
{
    timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static double
launches_per_second()
{
    const int launches = 20000;
    std::vector<double> rates;
    for (int round = 0; round < 11; ++round) {
        const double begin = seconds_of(CLOCK_MONOTONIC);
        for (int i = 0; i < launches; ++i)
            nothing<<<1, 1>>>();
        cudaDeviceSynchronize();
        rates.push_back(launches / (seconds_of(CLOCK_MONOTONIC) - begin));
    }
    std::nth_element(rates.begin(), rates.begin() + 5, rates.end());
    return rates[5];
}

/* After work on several streams, so that all threads that there will be are there. */
static double
idle_share()
{
    cudaStream_t streams[4];
    for (auto &stream : streams) {
        cudaStreamCreate(&stream);
        nothing<<<64, 64, 0, stream>>>();
    }
    cudaDeviceSynchronize();
    const double begin = seconds_of(CLOCK_MONOTONIC), used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used) / (seconds_of(CLOCK_MONOTONIC) - begin);
}

int
main()
{
    const double rate = launches_per_second(), share = idle_share();
    if (cudaGetLastError() != cudaSuccess)
        return 1;
    std::printf("launches %.1f idle %.6f\n", rate, share);
    return 0;
}
