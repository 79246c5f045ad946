from dataclasses import dataclass
from os import PathLike
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Union

import numpy as np
from numpy.typing import NDArray

from ._native import Answer, CancelToken, ModelInfo

_Path = Union[str, PathLike[str]]
_Image = Union[_Path, bytes, bytearray, memoryview, NDArray[np.uint8], Any]

@dataclass(frozen=True)
class Event:
    kind: str
    name: str = ""
    value: Any = None
    text: str = ""
    forwards: int = 0
    tokens: int = 0
    elapsed_ms: float = 0.0
    answer: Optional[Answer] = None

class Engine:
    @classmethod
    def load(
        cls,
        folder: _Path,
        *,
        dtype: str = "auto",
        kv: str = "auto",
        device: str = "cpu",
        threads: int = 0,
        slots: int = 0,
        progress: Optional[Callable[[str, int, int], object]] = None,
    ) -> Engine: ...
    @property
    def info(self) -> ModelInfo: ...
    def answer(
        self,
        *,
        images: Optional[Iterable[_Image]] = None,
        videos: Iterable[Union[_Path, Iterable[_Image]]] = (),
        fps: float = 2.0,
        ego: Union[_Path, Mapping[str, Any], None] = None,
        messages: Optional[Iterable[Mapping[str, Any]]] = None,
        record: Optional[_Path] = None,
        scene: Optional[int] = None,
        form: Union[_Path, Mapping[str, Any], None] = "model",
        previous_answer: Optional[Union[Answer, str]] = None,
        section_temperatures: Optional[Mapping[str, float]] = None,
        trajectory_head: _Path = "",
        stop: Union[str, Iterable[str]] = (),
        timeout_s: Optional[float] = None,
        cancel: Optional[CancelToken] = None,
        prompt: str = "",
        system: str = "",
        visibility: str = "",
        fit: str = "auto",
        fast_plan: bool = False,
        unnorm_key: str = "",
        max_tokens: int = 256,
        blank_images: bool = False,
        decoder: str = "",
        schedule: str = "",
        drafter: str = "",
        verifier: str = "",
        width: str = "",
        temperature: float = 0.0,
        seed: int = 0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        repetition_last: int = 64,
        rollouts: int = 1,
        max_rows: int = 0,
        activation: bool = True,
        log_forced: bool = False,
        log_probs: bool = False,
        top_log_probs: int = 0,
        trace: bool = False,
        reuse_prompt: bool = True,
    ) -> Answer: ...
    def stream(
        self,
        *,
        images: Optional[Iterable[_Image]] = None,
        videos: Iterable[Union[_Path, Iterable[_Image]]] = (),
        fps: float = 2.0,
        ego: Union[_Path, Mapping[str, Any], None] = None,
        messages: Optional[Iterable[Mapping[str, Any]]] = None,
        record: Optional[_Path] = None,
        scene: Optional[int] = None,
        form: Union[_Path, Mapping[str, Any], None] = "model",
        previous_answer: Optional[Union[Answer, str]] = None,
        section_temperatures: Optional[Mapping[str, float]] = None,
        trajectory_head: _Path = "",
        stop: Union[str, Iterable[str]] = (),
        timeout_s: Optional[float] = None,
        cancel: Optional[CancelToken] = None,
        prompt: str = "",
        system: str = "",
        visibility: str = "",
        fit: str = "auto",
        fast_plan: bool = False,
        unnorm_key: str = "",
        max_tokens: int = 256,
        blank_images: bool = False,
        decoder: str = "",
        schedule: str = "",
        drafter: str = "",
        verifier: str = "",
        width: str = "",
        temperature: float = 0.0,
        seed: int = 0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        repetition_last: int = 64,
        rollouts: int = 1,
        max_rows: int = 0,
        activation: bool = True,
        log_forced: bool = False,
        log_probs: bool = False,
        top_log_probs: int = 0,
        trace: bool = False,
        reuse_prompt: bool = True,
    ) -> Iterator[Event]: ...
    async def answer_async(
        self,
        *,
        images: Optional[Iterable[_Image]] = None,
        videos: Iterable[Union[_Path, Iterable[_Image]]] = (),
        fps: float = 2.0,
        ego: Union[_Path, Mapping[str, Any], None] = None,
        messages: Optional[Iterable[Mapping[str, Any]]] = None,
        record: Optional[_Path] = None,
        scene: Optional[int] = None,
        form: Union[_Path, Mapping[str, Any], None] = "model",
        previous_answer: Optional[Union[Answer, str]] = None,
        section_temperatures: Optional[Mapping[str, float]] = None,
        trajectory_head: _Path = "",
        stop: Union[str, Iterable[str]] = (),
        timeout_s: Optional[float] = None,
        cancel: Optional[CancelToken] = None,
        prompt: str = "",
        system: str = "",
        visibility: str = "",
        fit: str = "auto",
        fast_plan: bool = False,
        unnorm_key: str = "",
        max_tokens: int = 256,
        blank_images: bool = False,
        decoder: str = "",
        schedule: str = "",
        drafter: str = "",
        verifier: str = "",
        width: str = "",
        temperature: float = 0.0,
        seed: int = 0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        repetition_last: int = 64,
        rollouts: int = 1,
        max_rows: int = 0,
        activation: bool = True,
        log_forced: bool = False,
        log_probs: bool = False,
        top_log_probs: int = 0,
        trace: bool = False,
        reuse_prompt: bool = True,
    ) -> Answer: ...
