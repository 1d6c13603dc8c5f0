"""Importing this module makes Hugging Face's Auto classes know transformers of ours: AutoModelForCausalLM.from_pretrained
of a folder that Lexergy saved then works anywhere.

The library itself never needs it; it is for programs that load through the Auto classes. It is the one import with a side effect.
"""

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

from lexergy.nets.transformer import (
    TransformerConfig,
    TransformerForCausalLM,
    TransformerForMaskedLM,
    TransformerModel,
)

AutoConfig.register(TransformerConfig.model_type, TransformerConfig, exist_ok=True)
AutoModel.register(TransformerConfig, TransformerModel, exist_ok=True)
AutoModelForCausalLM.register(TransformerConfig, TransformerForCausalLM, exist_ok=True)
AutoModelForMaskedLM.register(TransformerConfig, TransformerForMaskedLM, exist_ok=True)
