#include "model.h"
#include <math.h>
#include <stdio.h>

int main(void)
{
    Config config = {24, 8, 24, 6};
    int B = 32;
    int max_steps = 100, warmup = 10;
    float max_lr = 1e-2f;
    Model model;
    DataLoader train_loader, val_loader;
    model_build(&model, config, B);
    dataloader_init(&train_loader, B, config.T, config.V, config.K, 1234567ull);
    dataloader_init(&val_loader, B, config.T, config.V, config.K, 7654321ull);
    printf("num_parameters: %zu\n", model.num_parameters);

    for (int step = 0; step <= max_steps; step++) {
        if (step % 20 == 0) {
            float val_loss = 0.0f;
            for (int i = 0; i < 4; i++) {
                dataloader_next_batch(&val_loader);
                model_forward(&model, val_loader.inputs, val_loader.targets, B);
                val_loss += model.mean_loss;
            }
            printf("val loss %f\n", val_loss / 4);
        }
        if (step == max_steps) break;
        dataloader_next_batch(&train_loader);
        model_forward(&model, train_loader.inputs, train_loader.targets, B);
        model_zero_grad(&model);
        model_backward(&model);
        float lr = step < warmup ? max_lr * (step + 1) / warmup
                                 : 0.5f * max_lr * (1.0f + cosf(3.14159265f * (step - warmup) / (max_steps - warmup)));
        model_update(&model, lr, 0.9f, 0.99f, 1e-8f, 0.01f, step + 1);
        if (step % 10 == 0) printf("step %d: train loss %f lr %f\n", step, model.mean_loss, lr);
    }
    dataloader_free(&train_loader);
    dataloader_free(&val_loader);
    model_free(&model);
    return 0;
}
