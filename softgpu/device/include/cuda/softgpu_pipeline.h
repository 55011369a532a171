/*
 * cuda/softgpu_pipeline.h - <cuda/pipeline>: copies in stages, of a thread or of the threads of a block that produce
 * and consume. libcu++, "Extended API". quit() is not here: all threads use a pipeline to its end.
 */
#ifndef SOFTGPU_CUDA_PIPELINE_H
#define SOFTGPU_CUDA_PIPELINE_H
#pragma GCC system_header

#include <cuda/softgpu_barrier.h>

namespace cuda
{

enum class pipeline_role { producer, consumer };

struct softgpu_stage {
    ::softgpu::phases produced, consumed;
};

template <thread_scope Scope, unsigned char Stages> struct pipeline_shared_state {
    static_assert(Scope == thread_scope_block || Scope == thread_scope_thread,
                  "softgpu-cc supports pipelines of a block only: cuda::thread_scope_block");
    softgpu_stage softgpu_stages[Stages];
    unsigned softgpu_producers, softgpu_consumers;
};

/* Numbers of stages grow for ever; stage n lies in place n % count, where it is the (n / count)-th. */
template <thread_scope Scope> class pipeline
{
  public:
    pipeline(softgpu_stage *stages, unsigned count) : stages_(stages), count_(count)
    {
    }
    pipeline(pipeline &&) = default;
    pipeline &operator=(const pipeline &) = delete;

    void producer_acquire()
    {
        if (stages_ != nullptr)
            stages_[produced_ % count_].consumed.wait_parity((produced_ / count_ & 1) ^ 1);
    }
    void producer_commit()
    {
        if (stages_ != nullptr)
            stages_[produced_++ % count_].produced.arrive(1, ::softgpu::nothing_completed);
    }
    void consumer_wait()
    {
        if (stages_ != nullptr)
            stages_[consumed_ % count_].produced.wait_parity(consumed_ / count_ & 1);
    }
    void consumer_release()
    {
        if (stages_ != nullptr)
            stages_[consumed_++ % count_].consumed.arrive(1, ::softgpu::nothing_completed);
    }

  private:
    softgpu_stage *stages_; /* of the shared state; null: the pipeline of one thread, whose copies are done at once */
    unsigned count_, produced_ = 0, consumed_ = 0;
};

inline pipeline<thread_scope_thread>
make_pipeline()
{
    return pipeline<thread_scope_thread>(nullptr, 1);
}

template <class Group, thread_scope Scope, unsigned char Stages>
inline pipeline<Scope>
softgpu_make_pipeline(const Group &group, pipeline_shared_state<Scope, Stages> *state, bool produces, bool consumes)
{
    if (group.thread_rank() == 0)
        state->softgpu_producers = state->softgpu_consumers = 0;
    group.sync();
    state->softgpu_producers += produces;
    state->softgpu_consumers += consumes;
    group.sync();
    if (group.thread_rank() == 0) {
        for (softgpu_stage &stage : state->softgpu_stages) {
            stage.produced.begin(state->softgpu_producers);
            stage.consumed.begin(state->softgpu_consumers);
        }
    }
    group.sync();
    return pipeline<Scope>(state->softgpu_stages, Stages);
}

template <class Group, thread_scope Scope, unsigned char Stages>
inline pipeline<Scope>
make_pipeline(const Group &group, pipeline_shared_state<Scope, Stages> *state)
{
    return softgpu_make_pipeline(group, state, true, true);
}

/* The first threads of the group produce. */
template <class Group, thread_scope Scope, unsigned char Stages>
inline pipeline<Scope>
make_pipeline(const Group &group, pipeline_shared_state<Scope, Stages> *state, std::size_t producers)
{
    const bool produces = group.thread_rank() < producers;
    return softgpu_make_pipeline(group, state, produces, !produces);
}

template <class Group, thread_scope Scope, unsigned char Stages>
inline pipeline<Scope>
make_pipeline(const Group &group, pipeline_shared_state<Scope, Stages> *state, pipeline_role role)
{
    return softgpu_make_pipeline(group, state, role == pipeline_role::producer, role == pipeline_role::consumer);
}

template <unsigned char Prior>
inline void
pipeline_consumer_wait_prior(pipeline<thread_scope_thread> &)
{
}

template <thread_scope Scope, class Completion>
inline void
pipeline_producer_commit(pipeline<thread_scope_thread> &, barrier<Scope, Completion> &)
{
}

template <thread_scope Scope>
inline void
memcpy_async(void *to, const void *from, std::size_t bytes, pipeline<Scope> &)
{
    __builtin_memcpy(to, from, bytes);
}

template <class Group, thread_scope Scope>
inline void
memcpy_async(const Group &group, void *to, const void *from, std::size_t bytes, pipeline<Scope> &)
{
    ::softgpu::copy_share(group, to, from, bytes);
}

} // namespace cuda

#endif
