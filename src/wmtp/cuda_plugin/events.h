// Events that mark points in time on a stream (tensor/moment.h), kept for reuse. THREADS: any.
#pragma once

namespace wmtp::cuda_plugin {

// As in CudaServices.
void* record_event();
double seconds_between(void* from, void* to);
void release_event(void* event);

}  // namespace wmtp::cuda_plugin
