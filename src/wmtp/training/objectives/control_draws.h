// What the controls of verifiable draw for a batch (weighting/controls.h), on the host.
#pragma once
#include "wmtp/training/objectives/verifiable.h"

namespace wmtp::training {

// [N] on the batch's device: weights (random), or the place that each token has its weight from
// (shuffled); undefined without a control. STREAM
Tensor draw_control(const VerifiableOptions& options, const DeviceBatch& batch,
                    std::uint64_t epoch);

}  // namespace wmtp::training
