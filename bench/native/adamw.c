/* A step of AdamW (Loshchilov & Hutter, 2018, algorithm 2) over all weights of one run, in one pass over memory.
 *
 *   m <- m + 0.1 (g - m)                           first moment, beta1 = 0.9
 *   v <- 0.999 v + 0.001 g^2                       second moment, beta2 = 0.999
 *   w <- keep w - scale m / (sqrt(v) + epsilon)    weights
 *
 * The caller computes the three numbers of step t, with learning rate lr and weight decay lambda:
 *
 *   keep = 1 - lr lambda,   scale = lr sqrt(1 - 0.999^t) / (1 - 0.9^t),   epsilon = 1e-8 sqrt(1 - 0.999^t),
 *
 * which is the algorithm with its bias corrections computed once for all weights. `by_definition` in adamw.py is the
 * same in tensor operations. Torch needs seven of them, and each reads and writes all weights: 915,000 weights do not
 * fit into the processor's nearer caches, so that access to memory takes most of the time.
 *
 * Read: the gradient. Read and overwritten: w, m and v. The four do not overlap (`restrict`). All are float32 arrays.
 */

#include <math.h>

/* One loop over weights i: a weight depends on no other one, so that the compiler computes several at a time. */
static void step(float *restrict w, const float *restrict gradient, float *restrict m, float *restrict v, float keep,
                 float scale, float epsilon, long weights) {
    for (long i = 0; i < weights; i++) {
        m[i] += 0.1f * (gradient[i] - m[i]);
        v[i] = 0.999f * v[i] + 0.001f * gradient[i] * gradient[i];
        w[i] = keep * w[i] - scale * m[i] / (sqrtf(v[i]) + epsilon);
    }
}

/* Backpropagation returns the gradient in `parts` arrays, one for each layer; gradient[i] has sizes[i] numbers. Their
 * concatenation belongs to w, m and v, which are one array each. It is not made, because that would be another pass. */
void adamw(float *w, const float *const *gradient, const long *sizes, long parts, float *m, float *v, float keep,
           float scale, float epsilon) {
    for (long part = 0, at = 0; part < parts; at += sizes[part++])
        step(w + at, gradient[part], m + at, v + at, keep, scale, epsilon, sizes[part]);
}
