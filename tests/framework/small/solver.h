/*
 * solver.h - SGD with momentum over a list of parameters.
 */
#ifndef SMALL_SOLVER_H
#define SMALL_SOLVER_H

#include "loader.h"
#include "net.h"

template <class T> class Solver
{
  public:
    /* clip: gradients with a larger norm are scaled to it; 0: never. */
    Solver(Net<T> &n, Loader<T> &l, T c);
    T step();        /* the loss of its batch */
    int clipped = 0; /* steps so far whose gradients were scaled */

  private:
    Net<T> &net;
    Loader<T> &loader;
    const T clip;
    std::vector<Param<T> *> params;

    void clip_gradients();
    void update();
};

#endif
