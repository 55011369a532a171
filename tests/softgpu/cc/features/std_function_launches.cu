// Launches from a table of std::function, from std::thread, from a recursive lambda.
#include <functional>
#include <map>
#include <string>
#include <thread>
__global__ void
add(int *p, int v)
{
    atomicAdd(p, v);
}

int
main()
{
    int *p = managed(4);
    std::map<std::string, std::function<void(int)>> table;
    table["plus"] = [p](int v) { add<<<1, 2>>>(p, v); };
    table["minus"] = [=](int v) { add<<<1, 1>>>(p, -v); };
    table["plus"](5);
    std::thread other([&] { table["minus"](3); });
    other.join();
    std::function<void(int)> down = [&](int n) {
        if (n == 0)
            return;
        add<<<1, 1>>>(p, n);
        down(n - 1);
    };
    down(4);
    cudaDeviceSynchronize();
    return *p == 10 - 3 + 10 ? 0 : 1;
}
