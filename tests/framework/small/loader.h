/*
 * loader.h - a thread that prepares batches ahead: four buffers go round between it and the solver.
 */
#ifndef SMALL_LOADER_H
#define SMALL_LOADER_H

#include "net.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

template <class T> struct Batch {
    Tensor<T> items;
    Tensor<int> classes;
    T *host_items;
    int *host_classes;
};

template <class T> class Loader
{
  public:
    /* Step s of process `rank` of `count` gets items [(s * count + rank) * batch, ... + batch). */
    Loader(int batch, int rank, int count);
    ~Loader();
    Batch<T> *take();          /* the next batch, in device memory; waits for it */
    void give(Batch<T> *used); /* no work of the device may need it any more */

  private:
    enum { BUFFERS = 4 };
    Batch<T> buffers[BUFFERS];
    std::deque<Batch<T> *> empty, full;
    std::mutex mutex;
    std::condition_variable changed;
    bool ends = false;
    const int batch, rank, count;
    cudaStream_t stream;
    std::thread thread;

    void run();
    void fill(Batch<T> &to, long step);
};

#endif
