// Which recurrence value_scan runs (value_scan.h). Torch-free: the GPU body reads it too.
#pragma once

namespace wmtp::kernels {

enum class ScanKind : int { td0, gae_value, gae_reward, monte_carlo, lambda_return };

}  // namespace wmtp::kernels
