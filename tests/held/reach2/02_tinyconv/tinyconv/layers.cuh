#pragma once

#include <tuple>
#include <utility>

#include "tinyconv/kernels.cuh"

namespace tinyconv {

constexpr int kThreads = 128;

template <typename T, int N>
struct Parameter {
  DeviceBuffer<float> master{N}, velocity{N}, grad{N};
  DeviceBuffer<T> copy{N};

  void init(const std::vector<float>& v) {
    master.upload(v);
    std::vector<T> c(N);
    for (int i = 0; i < N; ++i) c[i] = Element<T>::store(v[i]);
    copy.upload(c);
  }
  void update(float lr, float momentum) {
    sgd_momentum<T><<<blocks_for(N, kThreads), kThreads>>>(
        master.get(), copy.get(), velocity.get(), grad.get(), lr, momentum,
        1.0f / Element<T>::loss_scale, N);
    CUDA_CHECK(cudaGetLastError());
  }
};

// Each layer: in_size, out_size, forward, backward, for_each_parameter.
template <int C, int H, int W, int OC, int KS>
struct Conv {
  using S = ConvShape<C, H, W, OC, KS>;
  static constexpr int in_size = S::in_size, out_size = S::out_size;

  template <typename T>
  struct Impl {
    Parameter<T, S::weight_size> w;
    Parameter<T, OC> b;

    void forward(const T* x, T* y, int batch) {
      conv_forward<T, S><<<blocks_for(batch * out_size, kThreads), kThreads>>>(
          x, w.copy.get(), b.copy.get(), y, batch);
    }
    void backward(const T* x, const T* dy, T* dx, int batch) {
      conv_backward_params<T, S, 64><<<S::weight_size + OC, 64>>>(x, dy, w.grad.get(),
                                                                  b.grad.get(), batch);
      if (dx)
        conv_backward_data<T, S><<<blocks_for(batch * in_size, kThreads), kThreads>>>(
            dy, w.copy.get(), dx, batch);
    }
    template <typename F>
    void for_each_parameter(F&& f) {
      f(w);
      f(b);
    }
  };
};

// A fully connected layer is a convolution that covers its whole input.
template <int In, int Out>
using Dense = Conv<In, 1, 1, Out, 1>;

template <int Size>
struct LeakyRelu {
  static constexpr int in_size = Size, out_size = Size;
  template <typename T>
  struct Impl {
    void forward(const T* x, T* y, int batch) {
      leaky_relu<T><<<blocks_for(batch * Size, kThreads), kThreads>>>(x, x, y, 0.125f,
                                                                      batch * Size);
    }
    void backward(const T* x, const T* dy, T* dx, int batch) {
      leaky_relu<T><<<blocks_for(batch * Size, kThreads), kThreads>>>(x, dy, dx, 0.125f,
                                                                      batch * Size);
    }
    template <typename F>
    void for_each_parameter(F&&) {}
  };
};

template <int C, int H, int W>
struct AvgPool {
  static_assert(H % 2 == 0 && W % 2 == 0, "even sizes only");
  static constexpr int in_size = C * H * W, out_size = C * H * W / 4;
  template <typename T>
  struct Impl {
    void forward(const T* x, T* y, int batch) {
      avg_pool_forward<T, C, H, W>
          <<<blocks_for(batch * out_size, kThreads), kThreads>>>(x, y, batch);
    }
    void backward(const T*, const T* dy, T* dx, int batch) {
      avg_pool_backward<T, C, H, W>
          <<<blocks_for(batch * in_size, kThreads), kThreads>>>(dy, dx, batch);
    }
    template <typename F>
    void for_each_parameter(F&&) {}
  };
};

template <typename T, typename... Layers>
class Net {
  static constexpr size_t depth = sizeof...(Layers);

 public:
  explicit Net(int batch) : batch_(batch) {
    size_t i = 0;
    ((act_[i].allocate(batch * Layers::out_size), grad_[i].allocate(batch * Layers::out_size),
      ++i),
     ...);
  }
  const T* forward(const T* x) {
    forward_from<0>(x);
    CUDA_CHECK(cudaGetLastError());
    return act_[depth - 1].get();
  }
  T* grad_output() { return grad_[depth - 1].get(); }
  void backward(const T* x) {
    backward_from<depth - 1>(x);
    CUDA_CHECK(cudaGetLastError());
  }
  template <typename F>
  void for_each_parameter(F&& f) {
    std::apply([&](auto&... layer) { (layer.for_each_parameter(f), ...); }, layers_);
  }

 private:
  template <size_t I>
  void forward_from(const T* x) {
    std::get<I>(layers_).forward(x, act_[I].get(), batch_);
    if constexpr (I + 1 < depth) forward_from<I + 1>(act_[I].get());
  }
  template <size_t I>
  void backward_from(const T* x) {
    if constexpr (I == 0) {
      std::get<0>(layers_).backward(x, grad_[0].get(), nullptr, batch_);
    } else {
      std::get<I>(layers_).backward(act_[I - 1].get(), grad_[I].get(), grad_[I - 1].get(), batch_);
      backward_from<I - 1>(x);
    }
  }

  int batch_;
  std::tuple<typename Layers::template Impl<T>...> layers_;
  DeviceBuffer<T> act_[depth], grad_[depth];
};

}  // namespace tinyconv
