// An export of an opened model: its files are read tensor by tensor.
#pragma once
#include "wmtp/exports/exporter.h"
#include "wmtp/models/model_source.h"

namespace wmtp::exports {

// `spec`: where to, format, dtype and options; what the model is (config, adapters, value head,
// tokenizer, step) is taken from `source`. Error config for adapters in a format of whole weights
// unless `merge_lora`, and where the target is what `source` reads. BLOCKS. Errors as in Exporter.
ExportReport export_source(const models::ModelSource& source, ExportSpec spec, bool merge_lora);

}  // namespace wmtp::exports
