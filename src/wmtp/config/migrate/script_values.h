// Flags of scripts whose values are not those of a key.
#pragma once
#include <string>
#include <vector>

#include "wmtp/config/migrate/rewriter.h"

namespace wmtp::config {

// The words of a flag as a value: null for a switch, a list for several. $NAME, which the shell
// would have filled in, is ${env:NAME}.
Node node_of_words(const std::vector<std::string>& words, Place place);

// Each is a Rewrite (rewrites.h) of a flag; OldEntry::key is the key that its rule names.
void rewrite_word_list(Rewriter& rewriter, const OldEntry& entry);  // a,b or a b
void rewrite_hub_data(Rewriter& rewriter, const OldEntry& entry);   // a data set of the Hub
void rewrite_workers(Rewriter& rewriter, const OldEntry& entry);
void rewrite_seed(Rewriter& rewriter, const OldEntry& entry);
void rewrite_beta1(Rewriter& rewriter, const OldEntry& entry);
void rewrite_beta2(Rewriter& rewriter, const OldEntry& entry);
void rewrite_optimizer(Rewriter& rewriter, const OldEntry& entry);
void rewrite_schedule(Rewriter& rewriter, const OldEntry& entry);
void rewrite_strategy(Rewriter& rewriter, const OldEntry& entry);
void rewrite_precision(Rewriter& rewriter, const OldEntry& entry);
void rewrite_dtype(Rewriter& rewriter, const OldEntry& entry);
void rewrite_resume(Rewriter& rewriter, const OldEntry& entry);
void rewrite_recompute(Rewriter& rewriter, const OldEntry& entry);
void rewrite_explicit_prefetch(Rewriter& rewriter, const OldEntry& entry);
// forward_prefetch and backward_prefetch with a number, or with a name of FSDP1.
void take_prefetch(Rewriter& rewriter, const OldEntry& entry);

}  // namespace wmtp::config
