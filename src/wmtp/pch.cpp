// Carries the precompiled header; see pch.h.
