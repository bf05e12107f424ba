/* A step of AdamW over all weights in one pass over memory; torch's operations need seven. */

#include <math.h>

static void step(float *restrict w, const float *restrict gradient, float *restrict m, float *restrict v, float keep,
                 float scale, float epsilon, long weights) {
    for (long i = 0; i < weights; i++) {
        m[i] += 0.1f * (gradient[i] - m[i]);
        v[i] = 0.999f * v[i] + 0.001f * gradient[i] * gradient[i];
        w[i] = keep * w[i] - scale * m[i] / (sqrtf(v[i]) + epsilon);
    }
}

/* The gradient is in several parts; sizes[i] is the number of weights of part i. */
void adamw(float *w, const float *const *gradient, const long *sizes, long parts, float *m, float *v, float keep,
           float scale, float epsilon) {
    for (long part = 0, at = 0; part < parts; at += sizes[part++])
        step(w + at, gradient[part], m + at, v + at, keep, scale, epsilon, sizes[part]);
}
