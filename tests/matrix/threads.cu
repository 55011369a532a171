/*
 * threads.cu - several host threads: three perceptrons, each with a thread and a stream of its own, that share a
 * gradient buffer's neighbourhood and one optimizer step, which the main thread makes.
 */
#include "perceptron.h"

#include <pthread.h>

enum { WORKERS = 3 };

struct worker {
    struct perceptron net;
    cudaStream_t stream;
    cudaEvent_t event;
    pthread_t thread;
};

static struct worker workers[WORKERS];
static pthread_barrier_t begin, end;
static size_t first, count;

static void *
work(void *which)
{
    struct worker *worker = (struct worker *)which;
    device_enter();
    for (int step = 0; step < options.steps; ++step) {
        pthread_barrier_wait(&begin);
        size_t first_item = item_of(step, 0, 1, first);
        items_load(&worker->net.items, first_item, count, worker->stream);
        perceptron_forward(&worker->net, first_item, (int)count, worker->stream);
        perceptron_backward(&worker->net, first_item, (int)count, 0.0f, 1.0f, worker->stream);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    options_parse(argc, argv);
    device_open();
    cudaStream_t stream = stream_create();
    cudaEvent_t event = event_create();
    DDP_SHARD(options.batch, &first, &count);
    CHECK(pthread_barrier_init(&begin, NULL, WORKERS + 1));
    CHECK(pthread_barrier_init(&end, NULL, WORKERS + 1));
    for (int w = 0; w < WORKERS; ++w) {
        workers[w].stream = stream_create();
        workers[w].event = event_create();
        perceptron_create(&workers[w].net, w, 1, true);
        perceptron_annotate_gradients(&workers[w].net);
    }
    for (int w = 0; w < WORKERS; ++w)
        CHECK(pthread_create(&workers[w].thread, NULL, work, &workers[w]));

    for (int step = 0; step < options.steps; ++step) {
        pthread_barrier_wait(&begin);
        pthread_barrier_wait(&end); /* all of backward is enqueued */
        for (int w = 0; w < WORKERS; ++w)
            stream_follow(workers[w].stream, stream, workers[w].event);
        DDP_STEP(stream);
        for (int w = 0; w < WORKERS; ++w)
            perceptron_update(&workers[w].net, 0.2f, stream);
        record_step(step, stream);
        for (int w = 0; w < WORKERS; ++w)
            stream_follow(stream, workers[w].stream, event);
    }
    for (int w = 0; w < WORKERS; ++w)
        pthread_join(workers[w].thread, NULL);
    record_save();
    return 0;
}
