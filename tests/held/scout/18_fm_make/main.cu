#include <stdio.h>
#include "fm.h"

int main(void)
{
    const int batch = 80, epochs = 15;
    table_t train, valid;
    fm_t fm;
    table_generate(&train, 2000, 1u);
    table_generate(&valid, 400, 2u);
    fm_init(&fm, batch, 7u);

    for (int epoch = 1; epoch <= epochs; epoch++) {
        float loss = 0;
        for (int offset = 0; offset < train.rows; offset += batch) {
            fm_gradient(&fm, train.d_x, train.d_label, offset, batch);
            fm_update(&fm, 0.01f, 1.0f / batch, 1e-4f);
        }
        loss = fm_take_loss(&fm) / train.rows;
        printf("epoch %d logloss %.5f valid %.5f\n", epoch, loss, fm_evaluate(&fm, &valid));
    }

    fm_free(&fm);
    table_free(&train);
    table_free(&valid);
    return 0;
}
