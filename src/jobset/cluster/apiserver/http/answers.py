"""Requests answered: admitted or refused, then handed to verbs or pages, and errors turned into answers.

Everything of the front door that needs no HTTP library; app.py puts it behind one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from jobset.api.errors import ApiError, BadRequest
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from jobset.cluster.apiserver.http.authentication import Authentication
from jobset.cluster.apiserver.http.authorization import Authorization, forbidden
from jobset.cluster.apiserver.http.discovery import Discovery
from jobset.cluster.apiserver.http.errors import NOT_FOUND_TEXT, NoSuchPage, headers_of, status_of, warning_headers
from jobset.cluster.apiserver.http.impersonation import impersonated
from jobset.cluster.apiserver.http.negotiation import MEDIA_TYPES, PLAIN, encode, is_pretty, representation
from jobset.cluster.apiserver.http.openapi import OpenApi
from jobset.cluster.apiserver.http.pages import Pages
from jobset.cluster.apiserver.http.requests import TEXT, Answer, Request
from jobset.cluster.apiserver.http.reviews import Reviews
from jobset.cluster.apiserver.http.verbs import Verbs
from jobset.cluster.apiserver.http.watching import OpenWatch, Watches
from jobset.cluster.apiserver.service import ApiService

NO_SUCH_PAGE = Answer(404, NOT_FOUND_TEXT.encode(), TEXT)


class Answers:
    def __init__(
        self,
        service: ApiService,
        authentication: Authentication,
        authorization: Authorization,
        now: Callable[[], datetime],
    ) -> None:
        self._authentication = authentication
        self._authorization = authorization
        reviews = Reviews(authentication, authorization)
        discovery = Discovery(service.registry, reviews.resources)
        openapi = OpenApi(service.registry, discovery, lambda: service.list(CUSTOM_RESOURCE_DEFINITIONS).items)
        self._verbs = Verbs(service, now, reviews)
        self._pages = Pages(discovery, openapi)
        self.watches = Watches(service, now)

    def admit(self, request: Request, headers: Mapping[str, str], certificate: Mapping[str, Any] | None) -> None:
        """Find out who asks, and let only those pass who may. Unauthorized, Forbidden."""
        user = self._authentication.authenticate(headers, certificate)
        request.user = impersonated(user, headers.items(), self._authorization)
        allowed, why = self._authorization.decide(request.user, request.info)
        if not allowed:
            raise forbidden(request.user, request.info, why)

    def answer(self, request: Request) -> Answer:
        """Never raises for what a client did: a refusal is an answer too."""
        try:
            return self._verbs.answer(request) if request.info.is_resource else self._pages.answer(request)
        except NoSuchPage:
            return NO_SUCH_PAGE
        except ApiError as error:
            return self.refusal(request, error)
        except RecursionError:
            return self.refusal(request, BadRequest("the object is nested too deeply"))

    def open_watch(self, request: Request) -> OpenWatch:
        """Raises what is wrong with the request: errors of jobset.api.errors, and NoSuchPage."""
        served = self._verbs.served(request.info)
        return self.watches.open(served, request.info, request.query, request.accept)

    def refusal(self, request: Request, error: ApiError) -> Answer:
        try:
            chosen = representation(request.accept)
        except ApiError:
            chosen = PLAIN
        pretty = is_pretty(request.query.get("pretty"), request.user_agent)
        body = encode(status_of(error), chosen.encoding, pretty=pretty)
        headers = (*headers_of(error), *warning_headers(request.warnings))
        return Answer(error.code, body, MEDIA_TYPES[chosen.encoding], headers)
