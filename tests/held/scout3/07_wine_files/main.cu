#include <cstdio>
#include <utility>
#include "network.h"

int main()
{
    Config cfg;
    Dataset all = make_wine(1050, 31);
    standardize(all);
    all.upload();
    const int train_rows = 900, valid_rows = all.rows - train_rows;

    Network net(all.features, cfg.hidden, all.classes, cfg.batch_size);
    for (int epoch = 0; epoch < cfg.epochs; epoch++) {
        for (int i = 0; i < train_rows / cfg.batch_size; i++) {
            const float *x = all.d_x + i * cfg.batch_size * all.features;
            const int *y = all.d_y + i * cfg.batch_size;
            net.forward(x, cfg.batch_size);
            net.backward(x, y, cfg.batch_size);
            net.step(cfg.lr);
        }
        cfg.lr *= cfg.decay;

        net.reset_stats();
        for (int r = train_rows; r < all.rows; r += cfg.batch_size) {
            net.forward(all.d_x + r * all.features, cfg.batch_size);
            net.score(all.d_y + r, cfg.batch_size);
        }
        std::pair<float, int> s = net.stats();
        printf("epoch %2d  val loss %.5f  val acc %.4f\n", epoch, s.first / valid_rows, s.second / (float)valid_rows);
    }
    all.release();
    return 0;
}
