/*
 * loader.cpp - items are made of their number: 12 values, and the class that a fixed rule gives them.
 */
#include "loader.h"

#include <random>

template <class T> Loader<T>::Loader(int b, int r, int n) : batch(b), rank(r), count(n)
{
    SMALL_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (Batch<T> &buffer : buffers) {
        buffer.items.resize(batch, ITEM_INPUTS);
        buffer.classes.resize(batch, 1);
        SMALL_CHECK(cudaMallocHost((void **)&buffer.host_items, buffer.items.count() * sizeof(T)));
        SMALL_CHECK(cudaMallocHost((void **)&buffer.host_classes, buffer.classes.count() * sizeof(int)));
        empty.push_back(&buffer);
    }
    SMALL_CHECK(cudaDeviceSynchronize());
    thread = std::thread(&Loader::run, this);
}

template <class T> Loader<T>::~Loader()
{
    {
        std::lock_guard<std::mutex> lock(mutex);
        ends = true;
    }
    changed.notify_all();
    thread.join();
    for (Batch<T> &buffer : buffers) {
        SMALL_CHECK(cudaFreeHost(buffer.host_items));
        SMALL_CHECK(cudaFreeHost(buffer.host_classes));
    }
    SMALL_CHECK(cudaStreamDestroy(stream));
}

template <class T>
void
Loader<T>::fill(Batch<T> &to, long step)
{
    for (int i = 0; i < batch; ++i) {
        std::mt19937 source((unsigned)((step * count + rank) * batch + i));
        T *const item = to.host_items + i * ITEM_INPUTS;
        int best = 0;
        for (int j = 0; j < ITEM_INPUTS; ++j)
            item[j] = (T)((float)(source() % 2001) / 1000.0f - 1.0f);
        for (int j = 1; j < ITEM_CLASSES; ++j)
            best = item[j] + item[j + ITEM_CLASSES] > item[best] + item[best + ITEM_CLASSES] ? j : best;
        to.host_classes[i] = best;
    }
    SMALL_CHECK(
        cudaMemcpyAsync(to.items.data, to.host_items, to.items.count() * sizeof(T), cudaMemcpyHostToDevice, stream));
    SMALL_CHECK(cudaMemcpyAsync(to.classes.data, to.host_classes, to.classes.count() * sizeof(int),
                                cudaMemcpyHostToDevice, stream));
    SMALL_CHECK(cudaStreamSynchronize(stream));
}

template <class T>
void
Loader<T>::run()
{
    for (long step = 0;; ++step) {
        Batch<T> *next = nullptr;
        {
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, [this] { return ends || !empty.empty(); });
            if (ends)
                return;
            next = empty.front();
            empty.pop_front();
        }
        fill(*next, step);
        {
            std::lock_guard<std::mutex> lock(mutex);
            full.push_back(next);
        }
        changed.notify_all();
    }
}

template <class T>
Batch<T> *
Loader<T>::take()
{
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return !full.empty(); });
    Batch<T> *const next = full.front();
    full.pop_front();
    return next;
}

template <class T>
void
Loader<T>::give(Batch<T> *used)
{
    {
        std::lock_guard<std::mutex> lock(mutex);
        empty.push_back(used);
    }
    changed.notify_all();
}

template class Loader<float>;
template class Loader<double>;
